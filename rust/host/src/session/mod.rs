//! A session: one attempt at one partition of one epoch, from its request to its staged object.
//!
//! A session is a private buffer over a pinned snapshot: none sees or stops another, and one that
//! ends early leaves nothing.

pub mod request;
pub mod row_counts;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreSpec};
use tempfile::TempDir;

use crate::host::Host;
use crate::log::{HeadHeader, RecordsWriter};
use crate::operator::input::{Admission, FarFutureFile, Intake};
use crate::operator::{Operator, Outcome, Worker};
use crate::partition::{self, Prepared, View, Wanted, apply_object};
use crate::protocol::{Digest, Epoch, ObjectId, OperatorName, Owner, PartitionId, RunNumber};
use crate::root::{self, ChunkName, Head, Ownership, Root};
use crate::session::request::{Opened, Place, Request, Staged};

/// A session.
pub struct Session {
    host: Arc<Host>,
    request: Request,
    home: Home,
    work: Option<Work>,
}

/// What becomes of a request.
pub enum Opening {
    /// A session.
    Here(Box<Session>, Opened),
    /// The partition is another host's: the session belongs there.
    Elsewhere(Owner),
}

/// Where a session's state comes from and goes to.
enum Home {
    /// Nowhere: a database in a temporary folder.
    Scratch,
    /// A root.
    Kept {
        root: Arc<Root>,
        run: RunNumber,
        place: Place,
    },
}

/// What a session has once it knows its columns.
struct Work {
    operator: Box<dyn Operator>,
    gate: Admission,
    stores: Vec<StoreSpec>,
    view: View,
    partition: Option<Arc<partition::PartitionState>>,
    intake: Intake,
    /// The scratch database's folder; removed behind the database, so it comes last.
    _scratch: Option<TempDir>,
}

impl Session {
    /// Opens a session: the root must be the query's, the run must be the newest, and the partition
    /// this host's.
    ///
    /// # Errors
    /// `InvalidValue` for a request that cannot be; the root's and the protocol's own.
    pub fn open(host: &Arc<Host>, json: &[u8]) -> Result<Opening> {
        let request = Request::parse(json)?;
        let partition = request.partition;
        let mut opened = Opened {
            epoch: None,
            state_epoch: None,
            run: None,
            partition,
        };
        let home = match request.place()? {
            None => Home::Scratch,
            Some(place) => {
                let root = host.root(&place.root, &request.storage_options)?;
                // Nothing is touched before it is clear that the root is this query's.
                root.check_query(
                    &place.query_id,
                    &place.run_id,
                    request.partitions,
                    place.epoch,
                )?;
                // The claim comes before anything of the epoch is listed.
                let run = root.claim(&place.query_id, &place.run_id, place.epoch)?;
                if let Ownership::Elsewhere(owner) =
                    host.own(&request, &root, run, &place.query_id)?
                {
                    return Ok(Opening::Elsewhere(owner));
                }
                host.check_in(&root, &request, run, place.epoch)?;
                opened = Opened {
                    epoch: Some(place.epoch),
                    state_epoch: place.epoch.previous(),
                    run: Some(run),
                    partition,
                };
                Home::Kept { root, run, place }
            }
        };
        Ok(Opening::Here(
            Box::new(Self {
                host: Arc::clone(host),
                request,
                home,
                work: None,
            }),
            opened,
        ))
    }

    /// Takes the input's columns, and brings the state to the epoch before. It may take a while (a
    /// restart replays what the last flush missed), so it is best done while the first rows are
    /// still to come.
    ///
    /// # Errors
    /// The operator's for columns that do not fit, the partition's for a state that cannot be
    /// brought there.
    pub fn columns(&mut self, schema: &Schema) -> Result<()> {
        self.work(schema)
            .map(|_| ())
            .map_err(|error| self.told(error))
    }

    /// Takes a batch of input; of the first one also the columns, unless they are known.
    ///
    /// # Errors
    /// The operator's for rows that do not fit, and those of [`Session::columns`].
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.take(batch).map_err(|error| self.told(error))
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let work = self.work(&batch.schema())?;
        let taken = work
            .gate
            .admit(batch)
            .and_then(|batch| work.operator.push(batch, &work.intake));
        taken.inspect_err(|error| discard_damaged(work.database(), error))
    }

    /// Ends the input: runs the operator, hands its output on, stages what it changed.
    ///
    /// `schema`: the input's columns. A session whose worker is gone leaves nothing.
    ///
    /// # Errors
    /// The store's, the worker's, and the protocol's.
    pub fn finish(self, schema: Option<&Schema>, worker: &mut dyn Worker) -> Result<Staged> {
        let (operator, partition) = (self.request.operator.name.clone(), self.request.partition);
        self.run(schema, worker)
            .map_err(|error| told(error, &operator, partition))
    }

    fn run(mut self, schema: Option<&Schema>, worker: &mut dyn Worker) -> Result<Staged> {
        let schema = schema.ok_or_else(|| {
            let text = "the session's input had no columns: push a batch, an empty one if there \
                        are no rows";
            Error::new(ErrorKind::InvalidValue, text)
        })?;
        self.work(schema)?;
        let Some(work) = self.work.take() else {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "the session has no work",
            ));
        };
        let database = work.database();
        self.end(work, worker)
            .inspect_err(|error| discard_damaged(database, error))
    }

    fn end(self, mut work: Work, worker: &mut dyn Worker) -> Result<Staged> {
        let Self {
            host,
            request,
            home,
            ..
        } = self;
        work.operator.rows().heartbeat = work.gate.heartbeat();
        if let (Some(input), Home::Kept { root, run, place }) = (work.operator.repeats(), &home)
            && let Some(head) = earlier(
                root,
                &request,
                *run,
                place.epoch,
                work.gate.digest(input),
                work.view.base,
            )?
        {
            apply_object(root, &work.view.db, &mut work.view.transaction, &head)?;
            work.operator.set_repeated();
        }
        let mut outcome = work
            .operator
            .run(&work.view.db, &mut work.view.transaction, worker)?;
        outcome.input = work.gate.digest(outcome.input);
        outcome.counts.ahead = work.gate.far_future_rows();
        let Home::Kept { root, run, place } = home else {
            return Ok(Staged {
                epoch: None,
                digest: None,
                adopted: false,
                records: 0,
                counts: outcome.counts,
            });
        };
        worker.check_alive()?;
        host.count(&root, &request.operator.name, place.epoch, outcome.counts);
        if let Some(aside) = work.gate.take_file() {
            set_aside(&request, &root, place.epoch, aside)?;
        }
        stage(&host, &request, &root, run, place.epoch, work, &outcome)
    }

    /// An error of this session, with operator and partition.
    pub(crate) fn told(&self, error: Error) -> Error {
        told(error, &self.request.operator.name, self.request.partition)
    }

    fn work(&mut self, schema: &Schema) -> Result<&mut Work> {
        let work = match self.work.take() {
            Some(work) => work,
            None => self.start(schema)?,
        };
        Ok(self.work.insert(work))
    }

    fn start(&self, schema: &Schema) -> Result<Work> {
        let mut operator = self.request.operator.kind.spec().start(schema)?;
        let stores = self.request.operator.stores();
        let options = self.request.settings.database_options();
        self.request.settings.apply_memory(&self.host);
        let intake = |partition, folder| Intake {
            partition,
            memory: Arc::clone(&self.host.sorting),
            folder,
        };
        match &self.home {
            Home::Scratch => {
                let folder = tempfile::Builder::new()
                    .prefix("holdfast-scratch-")
                    .tempdir()
                    .map_err(|error| {
                        Error::new(
                            ErrorKind::Io,
                            format!(
                                "no temporary folder for a scratch state ({error}): set TMPDIR to \
                                 one that can be written"
                            ),
                        )
                    })?;
                let db = Database::open(folder.path(), &stores, options)?;
                let view = View::new(db, &self.host.uncommitted)?;
                let intake = intake(None, folder.path().to_owned());
                // A static frame has no time of its own to go by.
                Ok(Work {
                    operator,
                    gate: Admission::default(),
                    stores,
                    view,
                    partition: None,
                    intake,
                    _scratch: Some(folder),
                })
            }
            Home::Kept { root, run, place } => {
                let meta = self.request.operator.meta(&*operator, place.epoch);
                let kept = root.operator(
                    &self.request.operator.name,
                    &meta,
                    *run,
                    self.request.partitions,
                )?;
                operator.rows().layout_mut()?.set_stored_payloads(&kept)?;
                let partition = self.host.partition(&self.request, root, &place.query_id);
                let view = partition.view(&Wanted {
                    run: *run,
                    epoch: place.epoch,
                    first_epoch: kept.first_epoch,
                    partitions: self.request.partitions,
                    stores: &stores,
                    options: &options,
                    executor: self.host.executor(),
                    snapshots: self.request.settings.snapshots(),
                    memory: &self.host.uncommitted,
                })?;
                let ahead = self.request.operator.max_ahead;
                let latest = ahead
                    .map(|ahead| {
                        root.batch_time(place.epoch)
                            .map(|now| now.saturating_add(ahead))
                    })
                    .transpose()?;
                let aside = FarFutureFile::new(
                    self.request.operator.kind.spec().rows().named(schema),
                    partition.home().to_owned(),
                );
                let intake = intake(Some(self.request.partition.0), partition.home().to_owned());
                Ok(Work {
                    operator,
                    gate: Admission::new(latest.zip(Some(aside))),
                    stores,
                    view,
                    partition: Some(partition),
                    intake,
                    _scratch: None,
                })
            }
        }
    }
}

impl Work {
    /// The partition's database as this session has it open; none of a static frame's.
    fn database(&self) -> Option<(Arc<partition::PartitionState>, Arc<Database>)> {
        self.partition
            .as_ref()
            .map(|partition| (Arc::clone(partition), Arc::clone(&self.view.db)))
    }
}

/// Where a session has met damage in its database, the retry is to find another: RocksDB looks at
/// few bytes when it opens one.
fn discard_damaged(
    database: Option<(Arc<partition::PartitionState>, Arc<Database>)>,
    error: &Error,
) {
    if let Some((partition, db)) = database.filter(|_| error.kind() == ErrorKind::StoreCorrupted) {
        partition.discard(&db);
    }
}

/// What the disk refused, or what rows cannot be, for whoever sees a Spark task fail: whose state
/// it was, and what becomes of it.
fn told(error: Error, operator: &OperatorName, partition: PartitionId) -> Error {
    match error.kind() {
        ErrorKind::Io => {}
        ErrorKind::StoreCorrupted => {
            let text = format!(
                "operator {operator}, partition {partition}: {error}. It is the executor's copy \
                 of the state, which is made anew for the task's retry: nothing that was \
                 committed is lost"
            );
            return Error::new(ErrorKind::StoreCorrupted, text);
        }
        ErrorKind::Serialization => {
            return error.about(&format!("operator {operator}, partition {partition}"));
        }
        _ => return error,
    }
    let text = error.to_string();
    let kept = "nothing that was committed is lost";
    let goes_on = if text.contains(kept) {
        String::new()
    } else {
        format!(". The Spark task may be retried then: {kept}")
    };
    Error::new(
        ErrorKind::Io,
        format!("operator {operator}, partition {partition}: {text}{goes_on}"),
    )
}

/// What a session of this run, or of the newest before it that has an object, came to with the same
/// input and on the same state.
fn earlier(
    root: &Root,
    request: &Request,
    run: RunNumber,
    epoch: Epoch,
    input: Digest,
    base: Digest,
) -> Result<Option<Head>> {
    let operator = &request.operator.name;
    let mut objects = root.objects(Some(operator), epoch)?;
    objects.retain(|object| object.partition == request.partition && object.run <= run);
    objects.sort_unstable_by_key(|object| std::cmp::Reverse(object.run));
    for object in objects {
        let header = root.head_header(epoch, &object)?;
        if header.is_some_and(|header| (header.input, header.base) == (input, base)) {
            return root.head(operator, epoch, object.partition, object.run);
        }
    }
    Ok(None)
}

/// Keeps rows that were dated too far ahead where people find them, and says so.
fn set_aside(request: &Request, root: &Root, epoch: Epoch, aside: FarFutureFile) -> Result<()> {
    let count = aside.rows();
    let Some(rows) = aside.finish()? else {
        return Ok(());
    };
    let operator = &request.operator.name;
    let place = root.put_aside(operator, epoch, request.partition, rows)?;
    log::warn!(
        "operator {operator}, partition {}, epoch {epoch}: {count} rows are dated more than \
         max_ahead past the micro-batch; they are set aside in {place}",
        request.partition
    );
    Ok(())
}

/// Writes a session's changes into the log and keeps them prepared. Once this returns, the task may
/// be acknowledged.
fn stage(
    host: &Host,
    request: &Request,
    root: &Root,
    run: RunNumber,
    epoch: Epoch,
    work: Work,
    outcome: &Outcome,
) -> Result<Staged> {
    let Work {
        stores,
        view:
            View {
                db,
                mut transaction,
                memory,
                base,
            },
        partition,
        ..
    } = work;
    let object = ObjectId {
        operator: request.operator.name.clone(),
        partition: request.partition,
        run,
    };
    let nonce = host.nonce();
    let mut chunks: Vec<String> = Vec::new();
    let mut put_chunk = |payload: &[u8]| -> Result<()> {
        let index = chunks.len() as u32;
        let name = ChunkName {
            epoch,
            object: object.clone(),
            attempt: request.attempt,
            nonce: nonce.clone(),
            index,
        };
        root.put_chunk(&name, payload)?;
        chunks.push(name.to_string());
        Ok(())
    };
    let mut writer = RecordsWriter::new()?;
    let mut stream_times = BTreeMap::new();
    for store in &stores {
        let timed = store.kind.restores_with_times();
        db.for_each_change(&store.name, &mut transaction, &mut |row| {
            writer.push(
                &store.name,
                row.key,
                row.value,
                timed.then_some(row.timestamp),
            )?;
            writer
                .sealed()
                .iter()
                .try_for_each(|payload| put_chunk(payload))
        })?;
        if let Some(time) = db.stream_time(&store.name, &transaction)? {
            stream_times.insert(store.name.clone(), time.0);
        }
    }
    let collected = writer.finish(&stream_times, outcome.output)?;
    collected
        .chunks
        .iter()
        .try_for_each(|payload| put_chunk(payload))?;
    let header = HeadHeader {
        operator: object.operator.clone(),
        epoch,
        partition: object.partition,
        run,
        attempt: request.attempt,
        base,
        digest: collected.digest,
        input: outcome.input,
        input_rows: outcome.counts.input_rows,
        output_rows: outcome.counts.output_rows,
        stream_times,
        records: collected.records,
        chunks,
    };
    root.fsync_spark(run, epoch)?;
    let staged = root.stage(
        &header,
        &collected.payload,
        request.partitions,
        request.settings.processing_guarantee,
    )?;
    let digest = match staged {
        root::Staged::Written | root::Staged::Adopted => {
            if let Some(partition) = partition {
                partition.keep(Prepared {
                    epoch,
                    run,
                    base,
                    digest: collected.digest,
                    transaction,
                    memory,
                });
            }
            collected.digest
        }
        // What was staged is other than what this session changed: it is read from the log.
        root::Staged::Differing(digest) => digest,
    };
    Ok(Staged {
        epoch: Some(epoch),
        digest: Some(digest),
        adopted: staged != root::Staged::Written,
        records: collected.records,
        counts: outcome.counts,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow_array::{
        ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
        TimestampMicrosecondArray,
    };
    use object_store::{ObjectStore, ObjectStoreExt};
    use serde_json::json;

    use super::*;
    use crate::root::careless::{Careless, Fault};

    fn rate(epoch: i64) -> RecordBatch {
        let columns: [(&str, ArrayRef); 7] = [
            ("pid", Arc::new(Int32Array::from(vec![0]))),
            ("side", Arc::new(BooleanArray::from(vec![false]))),
            ("deleted", Arc::new(BooleanArray::from(vec![false]))),
            (
                "t",
                Arc::new(TimestampMicrosecondArray::from(vec![epoch]).with_timezone("UTC")),
            ),
            ("k0", Arc::new(StringArray::from(vec!["EUR"]))),
            ("l0", Arc::new(Int64Array::from(vec![None]))),
            ("r0", Arc::new(Float64Array::from(vec![1.0]))),
        ];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    }

    #[test]
    fn a_micro_batch_asks_an_object_store_nine_times() {
        let (objects, local) = (
            Arc::new(Careless::new(Fault::None)),
            tempfile::tempdir().expect("a folder"),
        );
        let host = Arc::new(Host::new(None, None));
        host.set_root(
            "memory",
            Root::over(
                Arc::clone(&objects) as Arc<dyn ObjectStore>,
                Path::new("memory"),
            ),
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let put = |name: String, text: &'static str| {
            runtime
                .block_on(objects.put(&name.into(), text.into()))
                .expect("puts");
        };
        put("query/metadata".to_owned(), r#"{"id":"q"}"#);
        let requests = |epoch: i64| {
            put(format!("query/offsets/{epoch}"), "v1");
            let before = objects.requests();
            let request = json!({
                "root": "memory", "local_dir": local.path(), "scratch": false, "query_id": "q",
                "run_id": "run", "epoch": epoch,
                "partition": 0, "partitions": 1, "attempt": epoch, "instance": "call",
                "settings": {},
                "operator": {
                    "name": "join", "kind": "join_asof", "keys": ["currency"], "left": ["id"],
                    "right": ["rate"], "how": "left",
                    "history_retention": 1_000, "order_left": [], "order_right": [],
                    "output": [{"name": "currency", "from": "key", "index": 0}],
                },
            });
            let Ok(Opening::Here(mut session, _)) =
                Session::open(&host, request.to_string().as_bytes())
            else {
                panic!("it opens here")
            };
            let rows = rate(epoch);
            let schema = rows.schema();
            session.push(rows).expect("takes rows");
            session
                .finish(Some(&schema), &mut |_| Ok(()))
                .expect("stages");
            let asked = objects.requests() - before;
            put(format!("query/commits/{epoch}"), "v1");
            asked
        };
        let asked: Vec<usize> = (0..4).map(requests).collect();
        // Newer runs, the next owner; Spark's offsets and two commits at once; the epoch before;
        // what is staged already; the object; newer runs again. Each is a wait of milliseconds, for
        // every partition of every micro-batch.
        assert_eq!(asked[2..], [9, 9], "{asked:?}");
    }
}
