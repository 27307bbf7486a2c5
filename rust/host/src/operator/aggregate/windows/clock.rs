//! What is late, and what is closed.

use crate::operator::aggregate::spec::{Emit, Spec};

/// How far an epoch has come, as the state has it: `stream time, 8 bytes | closed, 8 bytes`, both big-endian. States of
/// before the second was kept have the first alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The greatest time so far.
    pub time: i64,
    /// The last end that is closed; the least number if none is.
    closed: Option<i64>,
}

impl Progress {
    /// What was kept, if it can be read.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.first_chunk().map(|number| i64::from_be_bytes(*number));
        Some(Self { time: number(bytes)?, closed: bytes.get(8..).and_then(number) })
    }

    /// What is to be kept.
    pub fn encode(self) -> Vec<u8> {
        [Some(self.time), self.closed].into_iter().flatten().flat_map(i64::to_be_bytes).collect()
    }
}

/// Where an epoch stands in the time of its rows. Rows of one epoch are worked on by time, so none makes another of its own
/// epoch late: what was closed is judged by what the epoch before it had closed, what is closed by the stream time after it. So
/// the grace may change between two epochs: what is open stays open until it is closed, and what is closed stays so.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    before: Option<i64>,
    now: Option<i64>,
    grace: Option<i64>,
    /// The last ends that are closed before and after the epoch.
    was_closed: i64,
    is_closed: i64,
    last: bool,
}

impl Clock {
    /// An epoch that begins where the one before stood, and comes to this stream time.
    pub fn new(spec: &Spec, before: Option<Progress>, now: Option<i64>) -> Self {
        let grace = spec.grace().or((spec.emit == Emit::Close).then_some(0));
        let closed = |time: i64| grace.map_or(i64::MIN, |grace| time.saturating_sub(grace));
        let was_closed = before.map_or(i64::MIN, |before| match (before.closed, spec.emit) {
            (Some(was_closed), Emit::Close) => was_closed,
            // What has been said already may close at once: the store keeps it by the grace and the retention of now.
            (Some(was_closed), Emit::Update) => was_closed.max(closed(before.time)),
            (None, _) => closed(before.time),
        });
        let is_closed = now.map_or(was_closed, |now| was_closed.max(closed(now)));
        Self { before: before.map(|before| before.time), now, grace, was_closed, is_closed, last: spec.last }
    }

    /// Whether a time was more than the grace behind, before the epoch.
    pub fn was_late(&self, time: i64) -> bool {
        self.grace.zip(self.before).is_some_and(|(grace, before)| time.saturating_add(grace) < before)
    }

    /// Whether what ends with this moment, the first one behind it, was closed before the epoch.
    pub fn was_closed(&self, end: i64) -> bool {
        end <= self.was_closed
    }

    /// Whether it is closed after the epoch.
    pub fn is_closed(&self, end: i64) -> bool {
        self.last || end <= self.is_closed
    }

    /// Whether what ends then is of no use to any later epoch.
    pub fn is_gone(&self, end: i64) -> bool {
        !self.last && self.was_closed != self.is_closed && end <= self.is_closed
    }

    /// The first and the last of the ends that the epoch closes, of what was there before it; none if nothing was, or if no
    /// more is closed than before.
    pub fn closing(&self) -> Option<(i64, i64)> {
        self.before?;
        let from = self.was_closed.saturating_add(1);
        let to = if self.last { i64::MAX } else { self.is_closed };
        (from <= to).then_some((from, to))
    }

    /// The stream time after the epoch.
    pub fn now(&self) -> Option<i64> {
        self.now
    }

    /// What is to be kept of the epoch.
    pub fn progress(&self) -> Option<Progress> {
        self.now.map(|time| Progress { time, closed: Some(self.is_closed) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clock(emit: &str, grace: i64, before: &[u8], now: i64) -> Clock {
        let spec = json!({"keys": [], "left": [], "aggregates": [], "emit": emit, "grace": grace});
        Clock::new(&serde_json::from_value(spec).expect("settings"), Progress::decode(before), Some(now))
    }

    #[test]
    fn another_grace_neither_closes_in_silence_nor_opens_again() {
        let kept = clock("close", 60, &[], 100).progress().expect("a time").encode();
        // 41 to 90 were open: they close in the epoch that has the shorter grace, even if its time stands still.
        let shorter = clock("close", 10, &kept, 100);
        assert_eq!((shorter.was_closed(40), shorter.was_closed(41), shorter.closing()), (true, false, Some((41, 90))));
        assert!(shorter.is_gone(90) && !shorter.is_closed(91));
        let kept = shorter.progress().expect("a time").encode();
        let longer = clock("close", 60, &kept, 120);
        assert_eq!((longer.was_closed(90), longer.is_closed(91), longer.closing()), (true, false, None));
        // What came out with every row needs no last answer.
        assert!(clock("update", 0, &kept, 100).was_closed(100));
    }

    #[test]
    fn a_state_that_says_nothing_of_what_is_closed_is_read_by_the_grace_of_now() {
        let older = clock("close", 10, &100_i64.to_be_bytes(), 105);
        assert_eq!((older.was_closed(90), older.was_closed(91), older.closing()), (true, false, Some((91, 95))));
    }
}
