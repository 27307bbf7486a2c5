//! What a state host keeps between sessions: roots, partitions with their databases, who called
//! what.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::executor::Executor;
use crate::memory::budget::Budget;
use crate::operator::Counts;
use crate::partition::PartitionState;
use crate::protocol::{Attempt, Epoch, HostId, OperatorName, Owner, PartitionId, RunNumber, Term};
use crate::root::{Ownership, OwnershipRequest, Root, StorageOptions};
use crate::session::request::Request;
use crate::session::row_counts::Tally;

/// How long a host that did not answer is taken to be gone without being asked.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The state behind all sessions of one host. Cheap to share (`Arc`).
pub struct Host {
    executor: Option<Executor>,
    id: HostId,
    reach: Option<Reach>,
    /// Hosts that did not answer: when that was heard, and how it was seen.
    gone: Mutex<HashMap<HostId, (Instant, String)>>,
    roots: Mutex<HashMap<String, Arc<Root>>>,
    partitions: Mutex<HashMap<PartitionKey, Slot>>,
    instances: Mutex<HashMap<(PathBuf, OperatorName), Instance>>,
    /// For rows that are being put in order.
    pub(crate) sorting: Arc<Budget>,
    /// For what is staged and not committed.
    pub(crate) uncommitted: Arc<Budget>,
    tally: Tally,
    random: RandomState,
    counter: AtomicU64,
}

/// How workers of other executors come to a host.
#[derive(Clone)]
pub struct Reach {
    /// `name:port`.
    pub endpoint: String,
    /// What they must show.
    pub token: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PartitionKey {
    root: PathBuf,
    local_dir: PathBuf,
    query_id: String,
    operator: OperatorName,
    number: PartitionId,
}

impl PartitionKey {
    fn of(request: &Request, root: &Root, query_id: &str) -> Self {
        Self {
            root: root.path().to_owned(),
            local_dir: request.local_dir.as_ref().map_or_else(
                || root.local_dir(),
                |shared| shared.join(folder_of(query_id)),
            ),
            query_id: query_id.to_owned(),
            operator: request.operator.name.clone(),
            number: request.partition,
        }
    }
}

/// A folder for a query's databases, since several may share a `local_dir`. Spark's ids are fit for
/// one as they are.
fn folder_of(query_id: &str) -> String {
    query_id
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

struct Slot {
    partition: Arc<PartitionState>,
    used: Instant,
}

/// Which call of an operator serves an epoch, and who has opened a session of it.
struct Instance {
    run: RunNumber,
    epoch: Epoch,
    id: String,
    attempts: HashSet<(PartitionId, Attempt)>,
}

impl Instance {
    fn new(request: &Request, run: RunNumber, epoch: Epoch) -> Self {
        Self {
            run,
            epoch,
            id: request.instance.clone(),
            attempts: HashSet::new(),
        }
    }
}

impl Host {
    /// A host without sessions. `executor`: whose state it serves, if somebody's; `reach`: how
    /// others come here, if they can.
    pub fn new(executor: Option<Executor>, reach: Option<Reach>) -> Self {
        let chance = RandomState::new().build_hasher().finish();
        Self {
            executor,
            id: HostId(format!("{}-{chance:016x}", std::process::id())),
            reach,
            gone: Mutex::default(),
            roots: Mutex::default(),
            partitions: Mutex::default(),
            instances: Mutex::default(),
            sorting: Budget::new(usize::MAX),
            uncommitted: Budget::new(usize::MAX),
            tally: Tally::default(),
            random: RandomState::new(),
            counter: AtomicU64::new(0),
        }
    }

    /// Counts rows of a session that came to nothing, for the log.
    pub(crate) fn count(&self, root: &Root, operator: &OperatorName, epoch: Epoch, counts: Counts) {
        self.tally.add(root.path(), operator, epoch, counts);
        self.tell_counts(false);
    }

    /// Writes what has been counted into the log, if it is time; `all`: in any case.
    pub fn tell_counts(&self, all: bool) {
        self.tally
            .lines(Instant::now(), all)
            .iter()
            .for_each(|line| log::info!("{line}"));
    }

    /// Whose state this is.
    pub fn executor(&self) -> Option<&Executor> {
        self.executor.as_ref()
    }

    /// The root of that name, opened once; the newest options are those it is reached with.
    pub(crate) fn root(&self, name: &str, options: &StorageOptions) -> Result<Arc<Root>> {
        let known = self.roots.lock().get(name).map(Arc::clone);
        if let Some(root) = known {
            root.renew(options)?;
            return Ok(root);
        }
        let root = Arc::new(Root::open(name, options)?);
        Ok(Arc::clone(
            self.roots.lock().entry(name.to_owned()).or_insert(root),
        ))
    }

    /// Has a root open under a name.
    #[cfg(test)]
    pub(crate) fn set_root(&self, name: &str, root: Root) {
        self.roots.lock().insert(name.to_owned(), Arc::new(root));
    }

    /// Which host serves the partition of a request: this one, also where nobody does any more, or
    /// another. What this host has of another one's partition is closed: it would go stale, and
    /// holds a directory.
    ///
    /// # Errors
    /// `Fenced` if the run is not the newest; the root's own.
    pub(crate) fn own(
        &self,
        request: &Request,
        root: &Root,
        run: RunNumber,
        query_id: &str,
    ) -> Result<Ownership> {
        let host = Owner {
            term: Term::first(run),
            host: self.id.clone(),
            endpoint: self.reach.as_ref().map(|reach| reach.endpoint.clone()),
            token: self
                .reach
                .as_ref()
                .map_or_else(String::new, |reach| reach.token.clone()),
            application: request.application.clone(),
        };
        let gone = self.hear(&request.gone);
        let ownership_request = OwnershipRequest {
            operator: &request.operator.name,
            partition: request.partition,
            run,
            host: &host,
            unreachable: &gone,
        };
        let ownership = root.owners.acquire(&ownership_request)?;
        if let Ownership::Elsewhere(owner) = &ownership {
            let ours = self
                .partitions
                .lock()
                .remove(&PartitionKey::of(request, root, query_id));
            if let Some(Slot { partition, .. }) = ours {
                log::info!("{partition}: closed, it is owned by {owner:?} now");
                partition.close();
            }
        }
        Ok(ownership)
    }

    /// All hosts that are known to be gone, with what a worker has just found out. It is remembered
    /// for a while, so that the tasks of a lost machine's partitions need not each wait for it.
    fn hear(&self, news: &HashMap<HostId, String>) -> HashMap<HostId, String> {
        let mut gone = self.gone.lock();
        gone.retain(|_, (heard, _)| heard.elapsed() < REMEMBERED);
        gone.extend(
            news.iter()
                .map(|(host, how)| (host.clone(), (Instant::now(), how.clone()))),
        );
        gone.iter()
            .map(|(host, (_, how))| (host.clone(), how.clone()))
            .collect()
    }

    /// The partition that a request is about; its database opens with the first view.
    pub(crate) fn partition(
        &self,
        request: &Request,
        root: &Arc<Root>,
        query_id: &str,
    ) -> Arc<PartitionState> {
        let key = PartitionKey::of(request, root, query_id);
        let (operator, local_dir) = (key.operator.clone(), key.local_dir.clone());
        let mut partitions = self.partitions.lock();
        let slot = partitions.entry(key).or_insert_with(|| Slot {
            partition: Arc::new(PartitionState::new(
                Arc::clone(root),
                query_id,
                operator,
                request.partition,
                &local_dir,
            )),
            used: Instant::now(),
        });
        slot.used = Instant::now();
        Arc::clone(&slot.partition)
    }

    /// Checks that one call of an operator serves an epoch, and that no attempt at a task comes to
    /// it twice. Two calls of one name would overwrite each other's objects; a task that comes
    /// twice computes another task's partition, too, and would take its own object for that one's.
    ///
    /// # Errors
    /// `InvalidState` names the operator and what to do.
    pub(crate) fn check_in(
        &self,
        root: &Root,
        request: &Request,
        run: RunNumber,
        epoch: Epoch,
    ) -> Result<()> {
        let mut instances = self.instances.lock();
        let (operator, partition, attempt) =
            (&request.operator.name, request.partition, request.attempt);
        let newest = instances
            .entry((root.path().to_owned(), operator.clone()))
            .or_insert_with(|| Instance::new(request, run, epoch));
        if (newest.run, newest.epoch) > (run, epoch) {
            // A stale task of an older epoch must not make the newest epoch's call forgotten.
            return Ok(());
        }
        if (newest.run, newest.epoch) < (run, epoch) {
            *newest = Instance::new(request, run, epoch);
        }
        if newest.id != request.instance {
            return Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "two operators of this query are named {operator}, so epoch {epoch} would mix \
                     their state: give each its own name=..., and call an operator once in an \
                     epoch (keep its DataFrame to use it twice)"
                ),
            ));
        }
        if !newest.attempts.insert((partition, attempt)) {
            return Err(Error::new(
                ErrorKind::InvalidState,
                format!(
                    "operator {operator}, epoch {epoch}: one task (attempt {attempt}) computes \
                     partition {partition} twice, so another partition is not computed: a \
                     coalesce above the operator runs several of its tasks in one. Use \
                     repartition() instead, or put one between them"
                ),
            ));
        }
        Ok(())
    }

    /// Chance for names of chunks, told apart from any other host's.
    pub(crate) fn nonce(&self) -> String {
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.counter.fetch_add(1, Ordering::Relaxed));
        format!("{:016x}", hasher.finish())
    }

    /// Closes partitions that nobody has used for a while: their query has ended, or they have
    /// moved.
    pub fn close_unused(&self, idle: Duration) {
        let unused: Vec<Arc<PartitionState>> = {
            let mut partitions = self.partitions.lock();
            let keys: Vec<PartitionKey> = partitions
                .iter()
                .filter(|(_, slot)| {
                    slot.used.elapsed() > idle && Arc::strong_count(&slot.partition) == 1
                })
                .map(|(key, _)| key.clone())
                .collect();
            keys.iter()
                .filter_map(|key| partitions.remove(key))
                .map(|slot| slot.partition)
                .collect()
        };
        for partition in unused {
            log::info!(
                "{partition}: closed, nobody has used it for {} s",
                idle.as_secs()
            );
            partition.close();
        }
    }

    /// Whether a snapshot is being taken.
    pub fn is_uploading(&self) -> bool {
        self.partitions
            .lock()
            .values()
            .any(|slot| slot.partition.is_uploading())
    }

    /// Flushes and closes all databases.
    pub fn close(&self) {
        let partitions: Vec<Slot> = self
            .partitions
            .lock()
            .drain()
            .map(|(_, slot)| slot)
            .collect();
        partitions.iter().for_each(|slot| slot.partition.close());
        self.tell_counts(true);
    }

    /// How often local databases of open partitions were thrown away and made anew from the log.
    pub fn rebuilds(&self) -> u64 {
        let partitions: Vec<Arc<PartitionState>> = self
            .partitions
            .lock()
            .values()
            .map(|slot| Arc::clone(&slot.partition))
            .collect();
        partitions
            .iter()
            .map(|partition| partition.rebuilds())
            .sum()
    }
}
