//! Runs maintenance in a thread, so that the host continues to accept connections.

use std::thread::{self, JoinHandle};

/// Runs at most one task at a time in a thread.
///
/// A host that accepts no connections for a long time counts as unreachable, so slow work does not
/// run in the accepting thread. Dropping this waits for the running task.
#[derive(Default)]
pub struct BackgroundTask(Option<JoinHandle<()>>);

impl BackgroundTask {
    /// Starts the task, unless the previous one still runs.
    pub fn start(&mut self, work: impl FnOnce() + Send + 'static) {
        if self
            .0
            .as_ref()
            .is_some_and(|running| !running.is_finished())
        {
            return;
        }
        match thread::Builder::new()
            .name("maintenance".to_owned())
            .spawn(work)
        {
            Ok(running) => self.0 = Some(running),
            Err(error) => log::warn!("maintenance is skipped for now: {error}"),
        }
    }
}

impl BackgroundTask {
    /// Drops this without waiting for the running task.
    pub fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|running| running.join().is_err()) {
            log::warn!("maintenance panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn task_runs_in_the_background_and_one_at_a_time() {
        let mut background = BackgroundTask::default();
        let ((go, waits), (report, reports)) = (channel(), channel());
        let first = report.clone();
        background.start(move || {
            // The test sends only after `start` has returned. If `start` ran the task in the
            // calling thread, this would time out.
            let released =
                waits.recv_timeout(Duration::from_secs(20)) != Err(RecvTimeoutError::Timeout);
            first.send(released).expect("the test receives");
        });
        let second = report.clone();
        background.start(move || second.send(false).expect("the test receives"));
        go.send(()).expect("the first task runs");
        drop(background);
        drop(report);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [true]);
    }
}
