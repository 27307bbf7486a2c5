//! The reads that run at the same time.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::problem::Problem;

/// How long a request waits until others have ended.
const QUEUED: Duration = Duration::from_secs(1);

/// The reads that run at the same time. The reader blocks, so each has a thread.
#[derive(Clone)]
pub struct Work {
    permits: Arc<Semaphore>,
    limit: usize,
}

/// The right to read. The work holds it until the work ends, even if the client has left.
pub struct WorkPermit {
    _permit: OwnedSemaphorePermit,
}

impl Work {
    /// At most `limit` reads at the same time.
    pub fn new(limit: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(limit)),
            limit,
        }
    }

    /// How many reads run.
    pub fn running(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// Runs blocking work in a thread, which gets the permit.
    ///
    /// # Errors
    /// A problem if too many others run, or if the work panics; the work's.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(WorkPermit) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let acquired = timeout(QUEUED, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = acquired else {
            let text = format!(
                "{} requests are being answered: try again later",
                self.limit
            );
            return Err(Problem::busy(text));
        };
        let permit = WorkPermit { _permit: permit };
        let done = tokio::task::spawn_blocking(move || work(permit)).await;
        done.unwrap_or_else(|error| {
            log::error!("a request failed: {error}");
            let text = "this is a bug in Holdfast, please report it: the gateway's log has more";
            Err(Problem::http(StatusCode::INTERNAL_SERVER_ERROR, text))
        })
    }
}
