//! What is late, and what is closed.

use crate::operator::aggregate::spec::{Emit, Spec};

/// Where an epoch stands in the time of its rows. Rows of one epoch are worked on by time, so none makes another of its own
/// epoch late: what was closed is judged by the stream time before it, what is closed by the one after it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    before: Option<i64>,
    now: Option<i64>,
    grace: Option<i64>,
    last: bool,
}

impl Clock {
    /// The stream times before and after an epoch.
    pub fn new(spec: &Spec, before: Option<i64>, now: Option<i64>) -> Self {
        let grace = spec.grace().or((spec.emit == Emit::Close).then_some(0));
        Self { before, now, grace, last: spec.last }
    }

    /// Whether a time was more than the grace behind, before the epoch.
    pub fn was_late(&self, time: i64) -> bool {
        self.grace.zip(self.before).is_some_and(|(grace, before)| time.saturating_add(grace) < before)
    }

    /// Whether what ends with this moment, the first one behind it, was closed before the epoch.
    pub fn was_closed(&self, end: i64) -> bool {
        is_closed(end, self.grace, self.before)
    }

    /// Whether it is closed after the epoch.
    pub fn is_closed(&self, end: i64) -> bool {
        self.last || is_closed(end, self.grace, self.now)
    }

    /// Whether what ends then is of no use to any later epoch.
    pub fn is_gone(&self, end: i64) -> bool {
        !self.last && self.before != self.now && is_closed(end, self.grace, self.now)
    }

    /// The first and the last of the ends that the epoch closes, of what was there before it; none if nothing was, or if time
    /// has not gone on.
    pub fn closing(&self) -> Option<(i64, i64)> {
        let (grace, before) = self.grace.zip(self.before)?;
        let from = before.saturating_sub(grace).saturating_add(1);
        let to = if self.last { i64::MAX } else { self.now?.saturating_sub(grace) };
        (from <= to).then_some((from, to))
    }

    /// The stream time after the epoch.
    pub fn now(&self) -> Option<i64> {
        self.now
    }
}

fn is_closed(end: i64, grace: Option<i64>, stream_time: Option<i64>) -> bool {
    grace.zip(stream_time).is_some_and(|(grace, now)| end.saturating_add(grace) <= now)
}
