//! A partition's database, kept open between epochs, and how it comes to stand at exactly the epoch
//! before.
//!
//! `directory.rs` which local directory · `ownership.rs` whose it is · `replay.rs` from the log
//! into the database · `snapshot.rs` copies of it in the root · `restore.rs` from a copy into a new
//! database · `progress.rs` what is told of these. Here: what is open, what is prepared, and the
//! steps that the protocol asks for.

mod directory;
mod ownership;
mod progress;
mod replay;
mod restore;
mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use holdfast_core::{
    Commit, Database, DatabaseOptions, Error, ErrorKind, Offset, OffsetChange, Result, StoreSpec,
    TopicPartition, Transaction,
};
use parking_lot::Mutex;

use crate::executor::Executor;
use crate::log::HeadHeader;
use crate::memory::budget::{Budget, Share};
use crate::protocol::{
    Digest, Epoch, ObjectId, OpenFacts, OpenStep, OperatorName, PartitionId, RunNumber, Violation,
    open_step,
};
use crate::root::{Root, SparkLogs};
use directory::Directory;
pub use replay::apply_object;
use restore::Origin;
pub use snapshot::SnapshotPolicy;
use snapshot::Snapshots;

/// The topic whose offset in the database is the last epoch that it holds.
const LOG: &str = "log";
/// The chain's digest after that epoch.
const CHAIN: &str = "chain";
/// Whose state it is: a local directory may be shared by several roots.
const QUERY: &str = "query";

/// A restart after SIGKILL replays what was not flushed: at most about so many bytes …
const FLUSH_BYTES: u64 = 32 << 20;
/// … or so much time.
const FLUSH_AGE: Duration = Duration::from_secs(30);

/// A transaction that may have less than this would be in files before it is worth it.
const LEAST_ROOM: usize = 1 << 20;

/// Where a partition's state is.
pub struct PartitionState {
    root: Arc<Root>,
    query_id: String,
    operator: OperatorName,
    number: PartitionId,
    /// Below it the partition's directories.
    home: PathBuf,
    /// A snapshot is being taken.
    uploading: AtomicBool,
    /// The next snapshot does not wait for the interval: a restore has found a damaged one, a
    /// database that came from one was damaged, or one was thrown away, and no new one was taken
    /// since.
    next_at_once: AtomicBool,
    origin: Mutex<Origin>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    open: Option<Open>,
    prepared: Vec<Prepared>,
    rebuilds: u64,
    snapshots: Snapshots,
    /// The run that found the root to be no further than Spark.
    looked: Option<RunNumber>,
}

struct Open {
    db: Arc<Database>,
    directory: Directory,
    /// The run that found the database to hold what was decided.
    checked: Option<RunNumber>,
    flushed: Instant,
}

/// A staged epoch in memory: what the log has, ready to be committed. It may be dropped at any
/// time.
pub struct Prepared {
    /// The epoch.
    pub epoch: Epoch,
    /// The run whose object in the log has the same changes.
    pub run: RunNumber,
    /// The chain before it.
    pub base: Digest,
    /// Its own digest.
    pub digest: Digest,
    /// Its changes.
    pub transaction: Transaction,
    /// The memory that they take.
    pub memory: Share,
}

/// What a session asks of its partition.
pub struct Wanted<'a> {
    /// The session's run.
    pub run: RunNumber,
    /// The session's epoch.
    pub epoch: Epoch,
    /// The epoch in which the operator first took part.
    pub first_epoch: Epoch,
    /// How many partitions the state has.
    pub partitions: u32,
    /// The operator's stores.
    pub stores: &'a [StoreSpec],
    /// How its database is opened.
    pub options: &'a DatabaseOptions,
    /// Whose host this is.
    pub executor: Option<&'a Executor>,
    /// When its snapshots are taken.
    pub snapshots: SnapshotPolicy,
    /// For what is staged and not committed.
    pub memory: &'a Arc<Budget>,
}

/// A session's private view of the state at the epoch before.
pub struct View {
    /// The database.
    pub db: Arc<Database>,
    /// A private buffer over a pinned snapshot.
    pub transaction: Transaction,
    /// The memory that it may take.
    pub memory: Share,
    /// The chain's digest at that state.
    pub base: Digest,
}

impl PartitionState {
    /// A partition whose database is not open yet. `local_dir`: below it, a folder for each
    /// operator and partition.
    pub fn new(
        root: Arc<Root>,
        query_id: &str,
        operator: OperatorName,
        number: PartitionId,
        local_dir: &Path,
    ) -> Self {
        let home = local_dir.join(operator.as_str()).join(number.to_string());
        Self {
            root,
            query_id: query_id.to_owned(),
            operator,
            number,
            home,
            uploading: AtomicBool::new(false),
            next_at_once: AtomicBool::new(false),
            origin: Mutex::default(),
            inner: Mutex::default(),
        }
    }

    /// Makes the epoch before final, and opens a view of the state there. Other sessions of the
    /// partition wait meanwhile.
    ///
    /// # Errors
    /// The protocol's violations; `Restore` for a log that cannot be replayed; `Io` for what the
    /// disk refuses.
    pub fn view(self: &Arc<Self>, wanted: &Wanted<'_>) -> Result<View> {
        let mut inner = self.inner.lock();
        let result = self
            .ensure(&mut inner, wanted)
            .and_then(|()| inner.view(wanted.memory));
        if result.is_ok() {
            self.snapshot_if_due(&mut inner, wanted);
        }
        match result.as_ref().map_err(Error::kind) {
            // Whatever is wrong with the database as it is open: the retry begins with a fresh one.
            Err(ErrorKind::StoreClosed | ErrorKind::Io) => inner.close(),
            Err(ErrorKind::StoreCorrupted) => self.discard_open(&mut inner),
            // The log may have gone on without this host, and been removed behind a snapshot: the
            // retry looks for one.
            Err(ErrorKind::Restore) => inner.open.iter_mut().for_each(|open| open.checked = None),
            _ => {}
        }
        result
    }

    /// Throws a database away in which a session has met damage; the next view makes it anew. One
    /// that is open in its place by now is left.
    pub fn discard(&self, db: &Arc<Database>) {
        let mut inner = self.inner.lock();
        if inner
            .open
            .as_ref()
            .is_some_and(|open| Arc::ptr_eq(&open.db, db))
        {
            self.discard_open(&mut inner);
        }
    }

    fn discard_open(&self, inner: &mut Inner) {
        inner.prepared.clear();
        let Some(Open { db, directory, .. }) = inner.open.take() else {
            return;
        };
        log::error!(
            "{self}: the local database {} is damaged; it is made anew from the log",
            db.path().display()
        );
        inner.rebuilds += 1;
        self.doubt();
        close(&db);
        if let Err(error) = directory.clear() {
            log::warn!("{self}: {error}");
        }
    }

    /// Keeps a staged epoch in memory until it is decided, if there is room.
    pub fn keep(&self, mut prepared: Prepared) {
        prepared
            .memory
            .set(prepared.transaction.uncommitted_bytes());
        if prepared.memory.is_exceeded() {
            log::debug!(
                "{self}: epoch {} is not kept in memory, where others are: it will be read from \
                 the log",
                prepared.epoch
            );
            return;
        }
        let mut inner = self.inner.lock();
        inner.prepared.retain(|other| other.epoch >= prepared.epoch);
        let known = inner.prepared.iter().any(|other| {
            (other.epoch, other.base, other.digest)
                == (prepared.epoch, prepared.base, prepared.digest)
        });
        if !known {
            inner.prepared.push(prepared);
        }
    }

    /// Flushes and closes the database; the next view opens it again.
    pub fn close(&self) {
        self.inner.lock().close();
    }

    /// The folder of its databases, and of what a session moves to disk.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// How often the local database was thrown away and made anew from the log.
    pub fn rebuilds(&self) -> u64 {
        self.inner.lock().rebuilds
    }

    fn ensure(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<()> {
        self.look_ahead(inner, wanted)?;
        let begun = self.open(inner, wanted)?;
        if !begun && (inner.opened()?.checked.is_none() || self.was_away(inner, wanted)?) {
            self.catch_up(inner, wanted)?;
        }
        let mut facts = self.facts(inner, wanted)?;
        loop {
            match open_step(&facts) {
                OpenStep::Ready => return Ok(()),
                OpenStep::Apply { from, to } => {
                    self.root.fsync_spark(wanted.run, wanted.epoch)?;
                    self.roll_forward(inner, wanted, from, to)?;
                    inner.flush_if_due()?;
                    if from == to {
                        // Every micro-batch does this: what Spark's logs said a moment ago need not
                        // be asked again.
                        facts = OpenFacts {
                            applied: Some(to),
                            applied_decided: true,
                            ..facts
                        };
                        continue;
                    }
                }
                OpenStep::Rebuild { reason } => self.rebuild(inner, wanted, &reason)?,
                OpenStep::Error(Violation::StateAhead { applied, .. })
                    if self.root.was_taken_back(applied)? =>
                {
                    self.rebuild(
                        inner,
                        wanted,
                        "the state was taken back (`holdfast rewind`)",
                    )?;
                }
                OpenStep::Error(violation) => return Err(self.root.broken(violation)),
            }
            facts = self.facts(inner, wanted)?;
        }
    }

    /// Whether other hosts have gone on since the database was open here: one that serves each
    /// micro-batch lacks one epoch at most.
    fn was_away(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<bool> {
        let next = self
            .applied(inner.db()?)?
            .map_or(wanted.first_epoch, Epoch::next);
        Ok(next.next() < wanted.epoch)
    }

    /// Finds out, once a run, whether the root holds epochs that Spark is yet to come to: the
    /// database, which would tell, may be a new one, or have lost what it had not written to files.
    fn look_ahead(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<()> {
        if inner.looked == Some(wanted.run) {
            return Ok(());
        }
        // Before Spark's logs, as what is applied: see OpenFacts.
        let reached = self
            .root
            .reached(&self.operator, self.number, wanted.run, wanted.epoch)?;
        if let Some(applied) = reached.beyond {
            let facts = self.facts_of(
                wanted,
                Some(applied),
                self.root.spark_logs(wanted.epoch)?,
                true,
            );
            if let OpenStep::Error(violation) = open_step(&facts) {
                return Err(self.root.broken(violation));
            }
        }
        inner.snapshots.epoch = reached.snapshot;
        inner.looked = Some(wanted.run);
        Ok(())
    }

    /// Opens the database, if it is not open; returns whether there was none.
    fn open(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<bool> {
        if inner
            .open
            .as_ref()
            .is_some_and(|open| !open.directory.is_there())
        {
            log::warn!("{self}: its local database was deleted; it is made anew from the log");
            inner.rebuilds += 1;
            inner.close();
        }
        if inner.open.is_some() {
            return Ok(false);
        }
        let damaged = |path: &Path, error: &Error| {
            log::error!(
                "{self}: the local database {} is damaged ({error}); it is made anew from the log",
                path.display()
            );
            inner.rebuilds += 1;
            self.doubt();
        };
        let mut begun = false;
        let (db, directory) = Directory::open(&self.home, wanted, damaged, |directory| {
            begun = true;
            self.begin(directory, wanted)
        })?;
        inner.open = Some(Open {
            db,
            directory,
            checked: None,
            flushed: Instant::now(),
        });
        // Stores in memory are empty now, and the offset with them, but what was committed beside
        // them is still there.
        if self.applied(inner.db()?)?.is_none() && chain(inner.db()?)? != Digest::ZERO {
            self.rebuild(inner, wanted, "its stores in memory are gone")?;
        }
        let query = inner.db()?.property(QUERY)?;
        if query.is_some_and(|query| query != self.query_id.as_bytes()) {
            self.rebuild(inner, wanted, "it holds the state of another query")?;
        }
        Ok(begun)
    }

    fn facts(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<OpenFacts> {
        // The order matters, see OpenFacts: what is applied, then Spark's logs.
        let applied = self.applied(inner.db()?)?;
        let logs = self.root.spark_logs(wanted.epoch)?;
        let SparkLogs {
            has_offsets,
            committed,
            previous_committed,
        } = logs;
        let behind = applied.filter(|applied| {
            *applied < wanted.epoch && previous_committed && !committed && has_offsets
        });
        let applied_decided = match behind {
            Some(applied) => self.holds_the_decided(inner, wanted, applied)?,
            None => true,
        };
        Ok(self.facts_of(wanted, applied, logs, applied_decided))
    }

    fn facts_of(
        &self,
        wanted: &Wanted<'_>,
        applied: Option<Epoch>,
        logs: SparkLogs,
        applied_decided: bool,
    ) -> OpenFacts {
        OpenFacts {
            operator: self.operator.clone(),
            partition: self.number,
            epoch: wanted.epoch,
            first_epoch: wanted.first_epoch,
            applied,
            applied_decided,
            previous_committed: logs.previous_committed,
            committed: logs.committed,
            has_offsets: logs.has_offsets,
        }
    }

    /// Whether the database holds the object that decided its last epoch. Looked at once for each
    /// run and each opening: from then on only decided objects enter it.
    fn holds_the_decided(
        &self,
        inner: &mut Inner,
        wanted: &Wanted<'_>,
        applied: Epoch,
    ) -> Result<bool> {
        let open = inner.opened()?;
        if open.checked == Some(wanted.run) {
            return Ok(true);
        }
        let chain = chain(&open.db)?;
        let same = self.decided_header(wanted, applied)?.chain() == chain;
        if same {
            open.checked = Some(wanted.run);
        }
        Ok(same)
    }

    /// What the object that decided an epoch says.
    fn decided_header(&self, wanted: &Wanted<'_>, epoch: Epoch) -> Result<HeadHeader> {
        let decided = self.decided(wanted, epoch)?;
        let header = self.root.head_header(epoch, &decided)?;
        header.ok_or_else(|| self.missing(decided, epoch))
    }

    fn decided(&self, wanted: &Wanted<'_>, epoch: Epoch) -> Result<ObjectId> {
        let run = self
            .root
            .decided_for(&self.operator, epoch, wanted.partitions)?;
        Ok(ObjectId {
            operator: self.operator.clone(),
            partition: self.number,
            run,
        })
    }

    fn rebuild(&self, inner: &mut Inner, wanted: &Wanted<'_>, reason: &str) -> Result<()> {
        log::warn!("{self}: the local database is made anew from the log: {reason}");
        inner.rebuilds += 1;
        // It may be of an epoch that was taken back.
        inner.snapshots.epoch = None;
        if let Some(Open {
            db, mut directory, ..
        }) = inner.open.take()
        {
            inner.prepared.clear();
            close(&db);
            let db = self.begin(&mut directory, wanted)?;
            inner.open = Some(Open {
                db,
                directory,
                checked: None,
                flushed: Instant::now(),
            });
        }
        Ok(())
    }

    fn applied(&self, db: &Database) -> Result<Option<Epoch>> {
        Ok(db
            .committed_offset(&self.topic())?
            .map(|offset| Epoch(offset.0)))
    }

    fn topic(&self) -> TopicPartition {
        TopicPartition {
            topic: LOG.to_owned(),
            partition: self.number.0,
        }
    }

    /// What enters the database beside an epoch's changes, in the same write.
    fn commit(&self, epoch: Epoch, chain: Digest) -> Commit {
        Commit {
            offsets: OffsetChange::Set(vec![(self.topic(), Some(Offset(epoch.0)))]),
            properties: vec![
                (CHAIN.to_owned(), chain.0.to_vec()),
                (QUERY.to_owned(), self.query_id.as_bytes().to_vec()),
            ],
        }
    }
}

impl View {
    /// A view of a database as it is now. `memory`: for what is staged.
    ///
    /// # Errors
    /// `StoreClosed`, and `StoreCorrupted` for a chain's digest that is none.
    pub fn new(db: Arc<Database>, memory: &Arc<Budget>) -> Result<Self> {
        let (mut transaction, base, mut memory) = (db.begin()?, chain(&db)?, memory.share());
        let room = memory.room().max(LEAST_ROOM);
        transaction.limit_memory(room);
        // Whoever comes meanwhile has what is left: at the end of the session it is known how much
        // this one has taken.
        memory.set(room.min(db.uncommitted_max_bytes().try_into().unwrap_or(0)));
        Ok(Self {
            db,
            transaction,
            memory,
            base,
        })
    }
}

impl Inner {
    fn opened(&mut self) -> Result<&mut Open> {
        self.open.as_mut().ok_or_else(closed)
    }

    fn db(&mut self) -> Result<&Arc<Database>> {
        self.opened().map(|open| &open.db)
    }

    fn view(&mut self, memory: &Arc<Budget>) -> Result<View> {
        let db = Arc::clone(self.db()?);
        View::new(db, memory)
    }

    fn flush_if_due(&mut self) -> Result<()> {
        let open = self.opened()?;
        if open.db.unflushed_bytes() > FLUSH_BYTES || open.flushed.elapsed() > FLUSH_AGE {
            open.db.flush(false)?;
            open.flushed = Instant::now();
        }
        Ok(())
    }

    fn close(&mut self) {
        self.prepared.clear();
        if let Some(open) = self.open.take() {
            close(&open.db);
        }
    }
}

impl std::fmt::Display for PartitionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operator {}, partition {}", self.operator, self.number)
    }
}

fn closed() -> Error {
    Error::new(
        ErrorKind::StoreClosed,
        "the partition's database is closed; retry the task",
    )
}

fn close(db: &Database) {
    if let Err(error) = db.close() {
        // The log has everything: the next host replays a little more.
        log::warn!("closing {}: {error}", db.path().display());
    }
}

/// The chain's digest at what the database holds.
fn chain(db: &Database) -> Result<Digest> {
    let Some(bytes) = db.property(CHAIN)? else {
        return Ok(Digest::ZERO);
    };
    let bytes = bytes.try_into().map_err(|bytes: Vec<u8>| {
        let text = format!(
            "the database's chain digest has {} bytes instead of 16; delete the directory, it is \
             made anew",
            bytes.len()
        );
        Error::new(ErrorKind::StoreCorrupted, text).path(db.path())
    })?;
    Ok(Digest(bytes))
}
