//! The batches that the thread of a scan has read ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// The batches between the thread of a scan and the reader of its rows.
pub struct BatchQueue {
    /// The thread checks this, too: it may work for long before it sends a batch.
    is_closed: AtomicBool,
    rest: Mutex<Rest>,
}

/// What the reader has not taken yet.
enum Rest {
    Open(Receiver<Result<RecordBatch>>),
    /// The reader has the last batch or an error.
    Ended,
    /// The queue was closed before its last batch was taken.
    Closed,
}

impl BatchQueue {
    /// Makes a queue of at most `ahead` batches, and the end at which the thread sends them.
    pub fn bounded(ahead: usize) -> (SyncSender<Result<RecordBatch>>, Arc<Self>) {
        let (send, batches) = mpsc::sync_channel(ahead);
        let queue = Self {
            is_closed: AtomicBool::new(false),
            rest: Mutex::new(Rest::Open(batches)),
        };
        (send, Arc::new(queue))
    }

    /// Waits for the next batch; none after the last one or an error.
    pub fn take_next(&self) -> Option<Result<RecordBatch>> {
        let mut rest = self.rest.lock();
        let next = match &*rest {
            Rest::Open(batches) => batches.recv().ok(),
            Rest::Ended => None,
            // An end without an error would hide missing rows.
            Rest::Closed => Some(Err(closed())),
        };
        if !matches!(next, Some(Ok(_))) {
            *rest = Rest::Ended;
        }
        next
    }

    /// Makes the thread end at its next batch or check, and the reader's next call fail.
    ///
    /// While the reader waits for a batch, this closes only the thread's end. If batches are left
    /// after that, the thread waits until they are taken or until another call of this function.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // A forked child drops its copy of a queue whose lock a thread of the parent may hold.
        if let Some(mut rest) = self.rest.try_lock()
            && matches!(*rest, Rest::Open(_))
        {
            *rest = Rest::Closed;
        }
    }

    /// Checks that the queue is not closed: called by the thread between two steps.
    ///
    /// # Errors
    /// `StoreClosed` if it is closed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        Ok(())
    }
}

/// The error of a scan that was closed before its last row.
pub fn closed() -> Error {
    Error::new(
        ErrorKind::StoreClosed,
        "the scan was closed before its last row: its reader was dropped, or the process exits",
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use arrow_schema::Schema;

    use super::*;

    fn batch() -> Result<RecordBatch> {
        Ok(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }

    #[test]
    fn closed_queue_ends_a_thread_that_waits_for_space() {
        let (send, queue) = BatchQueue::bounded(1);
        let thread = thread::spawn(move || while send.send(batch()).is_ok() {});
        assert!(queue.take_next().is_some_and(|next| next.is_ok()));
        queue.check_open().expect("is open");
        queue.close();
        thread.join().expect("ends");
        let error = queue.check_open().expect_err("is closed");
        assert_eq!(error.kind(), ErrorKind::StoreClosed);
    }

    #[test]
    fn reader_of_a_closed_queue_has_one_error() {
        let (_send, queue) = BatchQueue::bounded(1);
        queue.close();
        let error = queue.take_next().expect("an item").expect_err("is closed");
        assert_eq!(error.kind(), ErrorKind::StoreClosed);
        assert!(queue.take_next().is_none());
    }

    #[test]
    fn queue_that_is_closed_after_its_end_has_no_error() {
        let (send, queue) = BatchQueue::bounded(1);
        drop(send);
        assert!(queue.take_next().is_none());
        queue.close();
        assert!(queue.take_next().is_none());
    }
}
