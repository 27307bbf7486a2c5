//! Reads of single keys that run together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::protocol::PartitionId;
use holdfast_host::reader::{AnswerState, ReadFrom, RowsAtEpoch};
use holdfast_host::tables::ReadCall;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::work::Work;
use crate::problem::Problem;

/// The most keys of one read: all their rows are in memory.
const MOST: usize = 64;
/// How long a key waits for the running read. Then another read begins beside that one.
const PATIENCE: Duration = Duration::from_millis(5);
/// The most reads of one kind at the same time. A copy of a partition may take minutes to make. The
/// reads that wait for it must leave permits for other partitions.
const MOST_READS: usize = 3;

/// What reads of single keys have in common if they can run as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReadKind {
    /// The operator.
    pub operator: String,
    /// The store.
    pub store: String,
    /// The partition of the keys; none if the keys do not choose it. A host that does not answer
    /// delays the keys of its own partitions only.
    pub partition: Option<PartitionId>,
    /// What is read.
    pub call: ReadCall,
    /// Which state is read.
    pub from: ReadFrom,
}

/// Reads a row for each key of a batch.
pub type GetRows = dyn Fn(&ReadKind, &RecordBatch) -> Result<RowsAtEpoch> + Send + Sync;

/// The row of a key, found or not.
#[derive(Debug, Clone)]
pub struct KeyRow {
    /// A batch of one row.
    pub row: RecordBatch,
    /// Which state it is of.
    pub state: AnswerState,
}

/// The answer to a key.
type KeyAnswer = std::result::Result<KeyRow, Problem>;

/// A key that waits for its row.
struct WaitingKey {
    key: RecordBatch,
    answer: oneshot::Sender<KeyAnswer>,
}

/// The keys of one kind of read.
#[derive(Default)]
struct KeyQueue {
    /// How many reads run.
    reading: usize,
    waiting: VecDeque<WaitingKey>,
}

/// The reads of single keys of a root.
///
/// While a read runs, the keys that arrive wait for its end, at most a few milliseconds, and are
/// then read together. With more requests, each costs less. A single request does not wait.
pub struct KeyReads {
    get: Arc<GetRows>,
    work: Work,
    queues: Mutex<HashMap<Arc<ReadKind>, KeyQueue>>,
}

impl KeyReads {
    /// No reads yet; `get` blocks.
    pub fn new(get: Arc<GetRows>, work: Work) -> Self {
        Self {
            get,
            work,
            queues: Mutex::default(),
        }
    }

    /// Reads the row of a key: a batch of one row. The read begins after this call, so its epoch is
    /// the newest one at this call or a newer one.
    ///
    /// # Errors
    /// As [`Work::run`]; the reader's.
    pub async fn read(self: &Arc<Self>, kind: ReadKind, key: RecordBatch) -> KeyAnswer {
        let kind = Arc::new(kind);
        let (answer, mut answered) = oneshot::channel();
        {
            let mut queues = self.queues.lock();
            let queue = queues.entry(Arc::clone(&kind)).or_default();
            queue.waiting.push_back(WaitingKey { key, answer });
            if queue.reading == 0 {
                self.begin(&kind, queue);
            }
        }
        let answered = if let Ok(in_time) = timeout(PATIENCE, &mut answered).await {
            in_time
        } else {
            self.begin_beside(&kind);
            answered.await
        };
        answered.unwrap_or_else(|_| {
            let text = "a read has ended without an answer";
            Err(Error::new(ErrorKind::InvalidState, text).into())
        })
    }

    /// Begins another read of the keys that wait, if there are some and fewer than [`MOST_READS`]
    /// run.
    fn begin_beside(self: &Arc<Self>, kind: &Arc<ReadKind>) {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(kind)
            && !queue.waiting.is_empty()
            && queue.reading < MOST_READS
        {
            self.begin(kind, queue);
        }
    }

    fn begin(self: &Arc<Self>, kind: &Arc<ReadKind>, queue: &mut KeyQueue) {
        queue.reading += 1;
        let (reads, kind) = (Arc::clone(self), Arc::clone(kind));
        tokio::spawn(async move {
            // Requests that have arrived already are part of the read.
            tokio::task::yield_now().await;
            while let Some(keys) = reads.next(&kind) {
                reads.read_all(&kind, keys).await;
            }
        });
    }

    /// Takes the keys of the next read. None if no keys wait: then the caller reads no more.
    fn next(&self, kind: &Arc<ReadKind>) -> Option<Vec<WaitingKey>> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(kind)?;
        if queue.waiting.is_empty() {
            queue.reading -= 1;
            if queue.reading == 0 {
                queues.remove(kind);
            }
            return None;
        }
        let count = queue.waiting.len().min(MOST);
        let keys = queue.waiting.drain(..count);
        // A key whose client has left is not read.
        Some(keys.filter(|one| !one.answer.is_closed()).collect())
    }

    async fn read_all(&self, kind: &Arc<ReadKind>, keys: Vec<WaitingKey>) {
        let (keys, answers): (Vec<RecordBatch>, Vec<_>) =
            keys.into_iter().map(|one| (one.key, one.answer)).unzip();
        if keys.is_empty() {
            return;
        }
        // One key may have a damaged row, or several rows. The other keys may still be readable.
        let of_one = [ErrorKind::Serialization, ErrorKind::UnsupportedOperation];
        let is_of_one = |problem: &Problem| of_one.iter().any(|kind| problem.is_of(*kind));
        match self.get(kind, keys.clone()).await {
            Err(problem) if keys.len() > 1 && is_of_one(&problem) => {
                for (key, answer) in keys.into_iter().zip(answers) {
                    if answer.is_closed() {
                        continue;
                    }
                    let found = self.get(kind, vec![key]).await;
                    send(
                        answer,
                        found.and_then(|found| next_row(&mut key_rows(&found))),
                    );
                }
            }
            Err(problem) => {
                for answer in answers {
                    send(answer, Err(problem.clone()));
                }
            }
            Ok(found) => {
                let mut rows = key_rows(&found);
                for answer in answers {
                    send(answer, next_row(&mut rows));
                }
            }
        }
    }

    async fn get(
        &self,
        kind: &Arc<ReadKind>,
        keys: Vec<RecordBatch>,
    ) -> std::result::Result<RowsAtEpoch, Problem> {
        let (get, kind) = (Arc::clone(&self.get), Arc::clone(kind));
        let read = move |_permit| {
            let keys = match keys.as_slice() {
                [only] => only.clone(),
                several => concat_batches(&several[0].schema(), several).map_err(|error| {
                    let text = format!("keys cannot be read together: {error}");
                    Error::new(ErrorKind::InvalidState, text)
                })?,
            };
            Ok(get(&kind, &keys)?)
        };
        self.work.run(read).await
    }
}

/// The rows of a read, one for each key.
fn key_rows(found: &RowsAtEpoch) -> impl Iterator<Item = KeyRow> {
    let batches = found.batches.iter();
    batches.flat_map(|batch| {
        (0..batch.num_rows()).map(|row| KeyRow {
            row: batch.slice(row, 1),
            state: found.state,
        })
    })
}

fn next_row(rows: &mut impl Iterator<Item = KeyRow>) -> KeyAnswer {
    let missing = || Error::new(ErrorKind::InvalidState, "a read of a key has no answer");
    Ok(rows.next().ok_or_else(missing)?)
}

/// Answers a key, unless its client has left.
fn send(answer: oneshot::Sender<KeyAnswer>, row: KeyAnswer) {
    if answer.send(row).is_err() {
        log::debug!("the client of a key has left");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use futures::future::join_all;
    use holdfast_host::protocol::Epoch;
    use holdfast_host::reader::Offline;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("a runtime")
    }

    fn kind() -> ReadKind {
        ReadKind {
            operator: "prices".to_owned(),
            store: "table".to_owned(),
            partition: None,
            call: ReadCall::default(),
            from: ReadFrom {
                exactly: None,
                at_least: None,
                timeout: Duration::ZERO,
                offline: Offline::Never,
                isolation_level: None,
                stale_ok: false,
            },
        }
    }

    fn key(number: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![number]));
        RecordBatch::try_from_iter([("n", column)]).expect("a column")
    }

    fn number(rows: &RecordBatch) -> i64 {
        rows.column(0).as_primitive::<Int64Type>().value(0)
    }

    /// Answers keys with themselves.
    fn same(keys: &RecordBatch) -> Result<RowsAtEpoch> {
        // A batch for each row: a large answer has several.
        let batches = (0..keys.num_rows()).map(|row| keys.slice(row, 1));
        Ok(RowsAtEpoch {
            schema: keys.schema(),
            batches: batches.collect(),
            state: AnswerState::of_final(Epoch(7)),
        })
    }

    async fn all(reads: &Arc<KeyReads>, numbers: std::ops::Range<i64>) -> Vec<KeyAnswer> {
        join_all(numbers.map(|number| reads.read(kind(), key(number)))).await
    }

    #[test]
    fn keys_that_arrive_together_are_read_together() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let get: Arc<GetRows> = Arc::new(move |_, keys| {
            seen.lock().push(keys.num_rows());
            same(keys)
        });
        let reads = Arc::new(KeyReads::new(get, Work::new(1)));
        let found = runtime().block_on(all(&reads, 0..100));
        let found = found
            .into_iter()
            .map(|row| number(&row.expect("a row").row));
        assert_eq!(found.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        let sizes = sizes.lock();
        assert_eq!(sizes.iter().sum::<usize>(), 100);
        assert!(sizes.len() < 100, "{sizes:?}");
        assert!(sizes.iter().all(|size| *size <= MOST), "{sizes:?}");
    }

    #[test]
    fn read_that_does_not_end_does_not_delay_others() {
        let (end, ended) = mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let get: Arc<GetRows> = Arc::new(move |_, keys| {
            if number(keys) == -1 {
                ended.lock().recv().ok();
            }
            same(keys)
        });
        let reads = Arc::new(KeyReads::new(get, Work::new(4)));
        let (runtime, slow) = (runtime(), Arc::clone(&reads));
        let slow = runtime.spawn(async move { slow.read(kind(), key(-1)).await });
        while reads.queues.lock().values().all(|queue| queue.reading == 0) {
            std::thread::yield_now();
        }
        // The first of them may still be read together with the slow one.
        std::thread::sleep(PATIENCE);
        assert!(
            runtime
                .block_on(all(&reads, 0..3))
                .iter()
                .all(KeyAnswer::is_ok)
        );
        end.send(()).expect("the slow read waits");
        runtime.block_on(slow).expect("no panic").expect("a row");
    }

    #[test]
    fn reads_that_wait_for_one_copy_leave_permits_for_other_partitions() {
        let (end, ended) = mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let get: Arc<GetRows> = Arc::new(move |kind, keys| {
            if kind.partition == Some(PartitionId(0)) {
                ended.lock().recv().ok();
            }
            same(keys)
        });
        let work = Work::new(MOST_READS + 1);
        let reads = Arc::new(KeyReads::new(get, work.clone()));
        let of = |partition| ReadKind {
            partition: Some(PartitionId(partition)),
            ..kind()
        };
        let runtime = runtime();
        let slow: Vec<_> = (0..10)
            .map(|number| {
                let (reads, kind) = (Arc::clone(&reads), of(0));
                std::thread::sleep(2 * PATIENCE);
                runtime.spawn(async move { reads.read(kind, key(number)).await })
            })
            .collect();
        while work.running() < MOST_READS {}
        let other = runtime.block_on(reads.read(of(1), key(7)));
        other.expect("another partition answers");
        drop(end);
        for row in slow {
            runtime.block_on(row).expect("no panic").expect("a row");
        }
    }

    #[test]
    fn row_that_cannot_be_read_fails_alone() {
        for kind in [ErrorKind::Serialization, ErrorKind::UnsupportedOperation] {
            let get: Arc<GetRows> = Arc::new(move |_, keys| {
                let numbers = keys.column(0).as_primitive::<Int64Type>().values();
                let error = numbers.contains(&3).then(|| Error::new(kind, "of one key"));
                error.map_or_else(|| same(keys), Err)
            });
            let reads = Arc::new(KeyReads::new(get, Work::new(1)));
            let found = runtime().block_on(all(&reads, 0..10));
            for (number, row) in found.iter().enumerate() {
                assert_eq!(row.is_err(), number == 3, "{row:?}");
            }
        }
    }
}
