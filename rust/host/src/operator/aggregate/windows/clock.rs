//! What is late, and what is closed.

use crate::operator::aggregate::spec::{Emit, Spec};

/// How far an epoch has come, as the state has it: `stream time, 8 bytes | closed, 8 bytes`, both
/// big-endian, and a byte 1 if `is_swept`. States of before the others were kept have the first
/// alone, or the first two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The greatest time so far.
    pub time: i64,
    /// The last end that is closed; the least number if none is.
    closed: Option<i64>,
    /// No window that is closed is in the store: they came out as they closed, and were deleted.
    is_swept: bool,
}

impl Progress {
    /// What was kept, if it can be read.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map(|number| i64::from_be_bytes(*number))
        };
        Some(Self {
            time: number(bytes)?,
            closed: bytes.get(8..).and_then(number),
            is_swept: bytes.get(16) == Some(&1),
        })
    }

    /// What is to be kept.
    pub fn encode(self) -> Vec<u8> {
        let numbers = [Some(self.time), self.closed]
            .into_iter()
            .flatten()
            .flat_map(i64::to_be_bytes);
        numbers.chain(self.is_swept.then_some(1)).collect()
    }
}

/// Where an epoch stands in the time of its rows. Rows of one epoch are worked on by time, so none
/// makes another of its own epoch late: what was closed is judged by what the epoch before it had
/// closed, what is closed by the stream time after it. So the grace may change between two epochs:
/// what is open stays open until it is closed, and what is closed stays so.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    before: Option<i64>,
    now: Option<i64>,
    grace: Option<i64>,
    /// The last ends that are closed before and after the epoch.
    was_closed: i64,
    is_closed: i64,
    /// Windows were closed between the epochs, by another grace.
    has_skipped: bool,
    /// Closed windows are deleted from the store, and before the epoch they were not.
    sweeps: bool,
    emit: Emit,
    last: bool,
}

impl Clock {
    /// An epoch that begins where the one before stood, and comes to this stream time.
    pub fn new(spec: &Spec, before: Option<Progress>, now: Option<i64>) -> Self {
        let grace = spec.grace().or((spec.emit == Emit::Close).then_some(0));
        let closed = |time: i64| grace.map_or(i64::MIN, |grace| time.saturating_sub(grace));
        let was_closed = before.map_or(i64::MIN, |before| match (before.closed, spec.emit) {
            (Some(was_closed), Emit::Close) => was_closed,
            // What has been said already may close at once: the store keeps it by the grace and the
            // retention of now.
            (Some(was_closed), Emit::Update) => was_closed.max(closed(before.time)),
            (None, _) => closed(before.time),
        });
        let is_closed = now.map_or(was_closed, |now| was_closed.max(closed(now)));
        let has_skipped = before
            .and_then(|before| before.closed)
            .is_some_and(|closed| closed < was_closed);
        let sweeps = spec.emit == Emit::Close && before.is_some_and(|before| !before.is_swept);
        let before = before.map(|before| before.time);
        Self {
            before,
            now,
            grace,
            was_closed,
            is_closed,
            has_skipped,
            sweeps,
            emit: spec.emit,
            last: spec.last,
        }
    }

    /// Whether a time was more than the grace behind, before the epoch.
    pub fn was_late(&self, time: i64) -> bool {
        self.grace
            .zip(self.before)
            .is_some_and(|(grace, before)| time.saturating_add(grace) < before)
    }

    /// Whether what ends with this moment, the first one behind it, was closed before the epoch.
    pub fn was_closed(&self, end: i64) -> bool {
        end <= self.was_closed
    }

    /// The last end that was closed before the epoch.
    pub fn closed_before(&self) -> i64 {
        self.was_closed
    }

    /// Whether some windows were closed by no epoch, but by another grace than that of the epoch
    /// before.
    pub fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// Whether windows that were closed before the epoch may be in the store, and are not to be.
    pub fn sweeps(&self) -> bool {
        self.sweeps
    }

    /// Whether it is closed after the epoch.
    pub fn is_closed(&self, end: i64) -> bool {
        self.last || end <= self.is_closed
    }

    /// Whether what ends then is of no use to any later epoch.
    pub fn is_gone(&self, end: i64) -> bool {
        !self.last && self.was_closed != self.is_closed && end <= self.is_closed
    }

    /// The first and the last of the ends that the epoch closes, of what was there before it; none
    /// if nothing was, or if no more is closed than before.
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
        self.now.map(|time| Progress {
            time,
            closed: Some(self.is_closed),
            is_swept: self.emit == Emit::Close,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clock(emit: &str, grace: i64, before: &[u8], now: i64) -> Clock {
        let spec = json!({"keys": [], "left": [], "aggregates": [], "emit": emit, "grace": grace});
        Clock::new(
            &serde_json::from_value(spec).expect("settings"),
            Progress::decode(before),
            Some(now),
        )
    }

    #[test]
    fn another_grace_neither_closes_in_silence_nor_opens_again() {
        let kept = clock("close", 60, &[], 100)
            .progress()
            .expect("a time")
            .encode();
        // 41 to 90 were open: they close in the epoch that has the shorter grace, even if its time
        // stands still.
        let shorter = clock("close", 10, &kept, 100);
        assert_eq!(
            (
                shorter.was_closed(40),
                shorter.was_closed(41),
                shorter.closing()
            ),
            (true, false, Some((41, 90)))
        );
        assert!(shorter.is_gone(90) && !shorter.is_closed(91));
        let kept = shorter.progress().expect("a time").encode();
        let longer = clock("close", 60, &kept, 120);
        assert_eq!(
            (
                longer.was_closed(90),
                longer.is_closed(91),
                longer.closing()
            ),
            (true, false, None)
        );
        // What came out with every row needs no last answer.
        let update = clock("update", 0, &kept, 100);
        assert!(update.was_closed(100) && update.has_skipped() && !longer.has_skipped());
        let kept = update.progress().expect("a time").encode();
        assert!(!clock("update", 0, &kept, 120).has_skipped(), "once");
    }

    #[test]
    fn closed_windows_are_swept_once_when_they_begin_to_come_out_as_they_close() {
        let first = clock("update", 10, &[], 100)
            .progress()
            .expect("a time")
            .encode();
        let closes = clock("close", 10, &first, 100);
        assert!(
            closes.sweeps()
                && clock("close", 10, &first[..8], 100).sweeps()
                && !clock("update", 10, &first, 100).sweeps()
        );
        let kept = closes.progress().expect("a time").encode();
        assert!(!clock("close", 10, &kept, 120).sweeps());
        let back = clock("update", 10, &kept, 120)
            .progress()
            .expect("a time")
            .encode();
        assert!(clock("close", 10, &back, 120).sweeps());
        assert_eq!((first.len(), kept.len(), back.len()), (16, 17, 16));
    }

    #[test]
    fn a_state_that_says_nothing_of_what_is_closed_is_read_by_the_grace_of_now() {
        let older = clock("close", 10, &100_i64.to_be_bytes(), 105);
        assert_eq!(
            (older.was_closed(90), older.was_closed(91), older.closing()),
            (true, false, Some((91, 95)))
        );
    }
}
