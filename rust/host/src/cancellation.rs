//! Ends the work of a host that must end.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, Shared, select};
use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// A flag that is set once: work under it ends early. Clones are the same flag.
#[derive(Clone)]
pub struct Cancellation {
    /// Taken and dropped by [`Cancellation::cancel`], which completes the receiver.
    sender: Arc<Mutex<Option<oneshot::Sender<()>>>>,
    cancelled: Shared<oneshot::Receiver<()>>,
}

impl Default for Cancellation {
    fn default() -> Self {
        let (sender, receiver) = oneshot::channel();
        Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            cancelled: receiver.shared(),
        }
    }
}

impl Cancellation {
    /// Sets the flag.
    pub fn cancel(&self) {
        drop(self.sender.lock().take());
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.sender.lock().is_none()
    }

    /// Checks that the flag is not set: called between two steps of long work.
    ///
    /// # Errors
    /// `StoreClosed` if it is set.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(ending());
        }
        Ok(())
    }

    /// Waits for a future or for the flag. If the flag is set first, work that the future has begun
    /// on another thread is left there.
    ///
    /// # Errors
    /// As [`Cancellation::check`].
    pub async fn or_cancelled<F: Future>(&self, work: F) -> Result<F::Output> {
        self.check()?;
        match select(pin!(work), self.cancelled.clone()).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(ending()),
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation")
            .field(&self.is_cancelled())
            .finish()
    }
}

fn ending() -> Error {
    Error::new(
        ErrorKind::StoreClosed,
        "this state host is ending, usually because its executor has ended; Spark retries the task \
         on another one",
    )
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn block_on<F: Future>(work: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(work)
    }

    #[test]
    fn cancellation_ends_the_wait_for_work_that_never_ends() {
        let cancellation = Cancellation::default();
        let done = block_on(cancellation.or_cancelled(ready(7))).expect("not cancelled");
        assert_eq!(done, 7);
        let waits = cancellation.clone();
        let waiting =
            std::thread::spawn(move || block_on(waits.or_cancelled(pending::<()>())).map(|()| 0));
        cancellation.cancel();
        let error = waiting.join().expect("ends").expect_err("is cancelled");
        assert_eq!(error.kind(), ErrorKind::StoreClosed);
        assert!(cancellation.check().is_err());
        let late = block_on(cancellation.or_cancelled(ready(7)));
        assert!(late.is_err(), "no further work begins");
    }
}
