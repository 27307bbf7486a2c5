//! Reads of single keys that run together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::Fields;
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
    /// The columns of the keys, as the table had them when the request was parsed. Keys are joined
    /// by position, so columns that another version of the query swaps must not be joined.
    pub columns: Fields,
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
mod tests;
