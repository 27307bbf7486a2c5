//! Decides when an idle host ends.

use std::time::{Duration, Instant};

/// How much longer than its limit an idle host waits for a snapshot that is being uploaded.
const UPLOAD: Duration = Duration::from_secs(600);

/// What an idle host does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleStep {
    /// It continues to serve.
    Serve,
    /// It asks the roots how long their queries pause.
    AskLimit,
    /// It ends.
    End,
}

/// How long a host has been idle, and how long it may be.
pub struct IdleEnd {
    minimum: Duration,
    last_session: Instant,
    /// The limit that the roots gave since the last session.
    limit: Option<Duration>,
}

impl IdleEnd {
    /// A host that starts now, and does not end before it has been idle for `minimum`.
    pub fn new(minimum: Duration, now: Instant) -> Self {
        Self {
            minimum,
            last_session: now,
            limit: None,
        }
    }

    /// Sets how long the host may be idle.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = Some(limit.max(self.minimum));
    }

    /// How long the host has been idle.
    pub fn idle(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_session)
    }

    /// Returns the next step. `has_session`, `is_uploading`: what the host does now.
    pub fn step(&mut self, now: Instant, has_session: bool, is_uploading: bool) -> IdleStep {
        if has_session {
            self.last_session = now;
            self.limit = None;
            return IdleStep::Serve;
        }
        let idle = self.idle(now);
        match self.limit {
            _ if idle <= self.minimum => IdleStep::Serve,
            None => IdleStep::AskLimit,
            Some(limit) if idle > limit && (!is_uploading || idle > limit + UPLOAD) => {
                IdleStep::End
            }
            Some(_) => IdleStep::Serve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMUM: Duration = Duration::from_secs(600);

    #[test]
    fn host_waits_for_a_query_that_pauses_longer_than_the_minimum() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut end = IdleEnd::new(MINIMUM, start);
        assert_eq!(end.step(after(600), false, false), IdleStep::Serve);
        assert_eq!(end.step(after(601), false, false), IdleStep::AskLimit);
        end.set_limit(Duration::from_secs(3_600));
        assert_eq!(end.step(after(3_600), false, false), IdleStep::Serve);
        assert_eq!(end.step(after(3_601), false, false), IdleStep::End);
        // A session starts the time again, and the roots are asked again.
        assert_eq!(end.step(after(3_601), true, false), IdleStep::Serve);
        assert_eq!(end.step(after(4_201), false, false), IdleStep::Serve);
        assert_eq!(end.step(after(4_202), false, false), IdleStep::AskLimit);
        end.set_limit(Duration::ZERO);
        assert_eq!(end.step(after(4_202), false, false), IdleStep::End);
    }

    #[test]
    fn snapshot_in_progress_delays_the_end() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut end = IdleEnd::new(MINIMUM, start);
        end.set_limit(Duration::ZERO);
        assert_eq!(end.step(after(601), false, true), IdleStep::Serve);
        assert_eq!(end.step(after(601), false, false), IdleStep::End);
        assert_eq!(end.step(after(1_201), false, true), IdleStep::End);
    }
}
