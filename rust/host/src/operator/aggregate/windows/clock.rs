//! Which rows are late, and which windows are closed.

use crate::operator::aggregate::spec::AggregateSpec;
use crate::operator::aggregate::window_spec::Emit;

/// The stream time after an epoch and the last closed end, as they are stored.
///
/// ```text
/// stream time, 8 bytes big-endian | closed, 8 bytes | retained, 8 bytes | 1 if `is_swept`
/// ```
///
/// An older state has only the first field, or only the first few fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeProgress {
    /// The greatest time so far.
    pub time: i64,
    /// The last end of a window that is closed; the least number if no window is closed.
    closed: Option<i64>,
    /// The earliest time of a group that every copy of the state still has, even if the settings
    /// have changed between epochs.
    retained: Option<i64>,
    /// Whether the store has no closed windows: they were emitted when they closed, and deleted.
    is_swept: bool,
}

impl TimeProgress {
    /// The earliest time of a group that every copy of the state still has; the least number if the
    /// state does not store it.
    pub fn retained(self) -> i64 {
        self.retained.unwrap_or(i64::MIN)
    }

    /// Returns the stored progress, if it can be read.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map(|number| i64::from_be_bytes(*number))
        };
        Some(Self {
            time: number(bytes)?,
            closed: bytes.get(8..).and_then(number),
            retained: bytes.get(16..).and_then(number),
            is_swept: bytes.get(24) == Some(&1),
        })
    }

    /// The bytes to store.
    pub fn encode(self) -> Vec<u8> {
        let numbers = [Some(self.time), self.closed, self.retained]
            .into_iter()
            .flatten()
            .flat_map(i64::to_be_bytes);
        numbers.chain(self.is_swept.then_some(1)).collect()
    }
}

/// Which groups the store of the groups retains.
#[derive(Debug, Clone, Copy)]
struct RetainedGroups {
    /// The earliest time from which groups were retained before the epoch; none if it is not
    /// stored.
    from: Option<i64>,
    /// How far behind its stream time the store retains groups.
    retention: i64,
}

/// The stream time before and after an epoch, and the windows that each of them closes.
///
/// Rows are late by the stream time before their epoch, so no row makes another row of its epoch
/// late. The windows that were closed before the epoch come from the stored progress; the windows
/// that are closed after the epoch follow from its stream time. The grace may therefore change
/// between two epochs. A closed window stays closed. If windows are emitted when they close, an
/// open window stays open until an epoch closes it; otherwise a shorter grace may close it between
/// two epochs.
#[derive(Debug, Clone, Copy)]
pub struct WindowClock {
    before: Option<i64>,
    now: Option<i64>,
    grace: Option<i64>,
    /// The last ends that are closed before and after the epoch.
    was_closed: i64,
    is_closed: i64,
    /// Whether windows were closed between two epochs because the grace has changed.
    has_skipped: bool,
    groups: RetainedGroups,
    /// Whether the store may still have windows that were closed before the epoch. They must be
    /// deleted.
    sweeps: bool,
    emit: Emit,
    last: bool,
}

impl WindowClock {
    /// The clock of an epoch that follows `before` and ends at this stream time.
    pub fn new(spec: &AggregateSpec, before: Option<TimeProgress>, now: Option<i64>) -> Self {
        let grace = spec.grace().or((spec.emit == Emit::Close).then_some(0));
        let closed = |time: i64| grace.map_or(i64::MIN, |grace| time.saturating_sub(grace));
        let was_closed = before.map_or(i64::MIN, |before| match (before.closed, spec.emit) {
            (Some(was_closed), Emit::Close) => was_closed,
            // The results of windows have been emitted already, so windows may close at once: the
            // current grace and retention determine how long the store has them.
            (Some(was_closed), Emit::Update) => was_closed.max(closed(before.time)),
            (None, _) => closed(before.time),
        });
        let is_closed = now.map_or(was_closed, |now| was_closed.max(closed(now)));
        let has_skipped = before
            .and_then(|before| before.closed)
            .is_some_and(|closed| closed < was_closed);
        let retained = before.and_then(|before| before.retained);
        let sweeps = spec.emit == Emit::Close && before.is_some_and(|before| !before.is_swept);
        let before = before.map(|before| before.time);
        Self {
            before,
            now,
            grace,
            was_closed,
            is_closed,
            has_skipped,
            groups: RetainedGroups {
                from: retained,
                retention: spec.group_retention(),
            },
            sweeps,
            emit: spec.emit,
            last: spec.last,
        }
    }

    /// Whether a time is late: more than the grace behind the stream time before the epoch.
    pub fn was_late(&self, time: i64) -> bool {
        self.grace
            .zip(self.before)
            .is_some_and(|(grace, before)| time.saturating_add(grace) < before)
    }

    /// Whether a window was closed before the epoch. `end` is the first moment after the window.
    pub fn was_closed(&self, end: i64) -> bool {
        end <= self.was_closed
    }

    /// The last end that was closed before the epoch.
    pub fn closed_before(&self) -> i64 {
        self.was_closed
    }

    /// Whether some windows were closed by a change of the grace and not by an epoch.
    pub fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// Whether windows that were closed before the epoch must be deleted from the store.
    pub fn sweeps(&self) -> bool {
        self.sweeps
    }

    /// The earliest time of the groups that are deleted if the clock sweeps.
    ///
    /// Groups before it may be in one copy of the state and have expired in another. If their
    /// deletes were in the log, two attempts would differ.
    pub fn swept_from(&self) -> i64 {
        self.groups.from.unwrap_or(i64::MIN)
    }

    /// Whether a window is closed after the epoch.
    pub fn is_closed(&self, end: i64) -> bool {
        self.last || end <= self.is_closed
    }

    /// Whether a window is closed after the epoch, if the epoch closes windows and is not the last.
    pub fn is_finished(&self, end: i64) -> bool {
        !self.last && self.was_closed != self.is_closed && end <= self.is_closed
    }

    /// The first and the last end of the stored windows that the epoch closes; none if it is the
    /// first epoch, or if it closes nothing.
    pub fn closing(&self) -> Option<(i64, i64)> {
        self.before?;
        let from = self.was_closed.saturating_add(1);
        let to = if self.last { i64::MAX } else { self.is_closed };
        (from <= to).then_some((from, to))
    }

    /// Like [`Self::closing`] if closed groups are emitted and then deleted; otherwise none.
    pub fn closing_groups(&self) -> Option<(i64, i64)> {
        self.closing().filter(|_| self.emit == Emit::Close)
    }

    /// Returns the first and the last time of the stored groups that expire in the epoch; none if
    /// closed groups are deleted instead. A group's time is the one under which it is stored.
    ///
    /// `time` is the stream time of the groups' store after the epoch. The store still has these
    /// groups before the epoch writes, and so does each copy of the state.
    pub fn expiring_groups(&self, time: Option<i64>) -> Option<(i64, i64)> {
        let time = time.filter(|_| self.emit == Emit::Update && !self.last)?;
        let (from, to) = (self.swept_from(), self.retained_at(time).saturating_sub(1));
        (self.before.is_some() && from <= to).then_some((from, to))
    }

    /// Whether the items of a group are deleted after the epoch: neither a later epoch nor a reader
    /// needs them. `retained` is the earliest time of a group that the store then has.
    pub fn is_over(&self, (end, time): (i64, i64), retained: i64) -> bool {
        match self.emit {
            Emit::Close => self.is_finished(end),
            Emit::Update => !self.last && time < retained,
        }
    }

    /// Whether groups have expired because the settings have changed, and not in an epoch. `time`
    /// is the stream time of the groups' store before the epoch.
    pub fn has_expired(&self, time: Option<i64>) -> bool {
        let now = time.map(|time| self.retained_at(time));
        self.emit == Emit::Update && self.groups.from.is_some_and(|before| Some(before) < now)
    }

    /// The earliest time of a group that the store still has when its stream time is `time`.
    pub fn retained_at(&self, time: i64) -> i64 {
        time.saturating_sub(self.groups.retention.saturating_sub(1))
    }

    /// The stream time after the epoch.
    pub fn now(&self) -> Option<i64> {
        self.now
    }

    /// The progress to store after the epoch. `retained` is the earliest time of a group that the
    /// store retains after the epoch under the present settings.
    pub fn progress(&self, retained: i64) -> Option<TimeProgress> {
        self.now.map(|time| TimeProgress {
            time,
            closed: Some(self.is_closed),
            retained: self.groups.from.max(Some(retained)),
            is_swept: self.emit == Emit::Close,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clock(emit: &str, grace: i64, before: &[u8], now: i64) -> WindowClock {
        let spec = json!({"keys": [], "left": [], "aggregates": [], "emit": emit, "grace": grace});
        WindowClock::new(
            &serde_json::from_value(spec).expect("settings"),
            TimeProgress::decode(before),
            Some(now),
        )
    }

    #[test]
    fn a_changed_grace_neither_closes_silently_nor_reopens() {
        let stored = clock("close", 60, &[], 100)
            .progress(7)
            .expect("a time")
            .encode();
        // Ends 41 to 90 were open: they close in the epoch with the shorter grace, even if the
        // stream time does not change.
        let shorter = clock("close", 10, &stored, 100);
        assert_eq!(
            (
                shorter.was_closed(40),
                shorter.was_closed(41),
                shorter.closing()
            ),
            (true, false, Some((41, 90)))
        );
        assert!(shorter.is_finished(90) && !shorter.is_closed(91));
        let stored = shorter.progress(7).expect("a time").encode();
        let longer = clock("close", 60, &stored, 120);
        assert_eq!(
            (
                longer.was_closed(90),
                longer.is_closed(91),
                longer.closing()
            ),
            (true, false, None)
        );
        // Windows that were emitted with every row need no last result.
        let update = clock("update", 0, &stored, 100);
        assert!(update.was_closed(100) && update.has_skipped() && !longer.has_skipped());
        let stored = update.progress(7).expect("a time").encode();
        assert!(!clock("update", 0, &stored, 120).has_skipped(), "once");
    }

    #[test]
    fn closed_windows_are_swept_once_when_emit_changes_to_close() {
        let first = clock("update", 10, &[], 100)
            .progress(7)
            .expect("a time")
            .encode();
        let closes = clock("close", 10, &first, 100);
        assert!(
            closes.sweeps()
                && clock("close", 10, &first[..8], 100).sweeps()
                && !clock("update", 10, &first, 100).sweeps()
        );
        let stored = closes.progress(7).expect("a time").encode();
        assert!(!clock("close", 10, &stored, 120).sweeps());
        let back = clock("update", 10, &stored, 120)
            .progress(7)
            .expect("a time")
            .encode();
        assert!(clock("close", 10, &back, 120).sweeps());
        assert_eq!((first.len(), stored.len(), back.len()), (24, 25, 24));
    }

    #[test]
    fn sweep_begins_at_the_earliest_time_that_every_epoch_retained() {
        let progress = |before: &[u8], retained| {
            let progress = clock("update", 10, before, 100).progress(retained);
            progress.expect("a time").encode()
        };
        let longer = progress(&progress(&[], 81), -900);
        assert_eq!(clock("close", 10, &longer, 100).swept_from(), 81);
        let shorter = progress(&longer, 90);
        assert_eq!(clock("close", 10, &shorter, 100).swept_from(), 90);
    }

    #[test]
    fn a_state_without_a_closed_end_uses_the_current_grace() {
        let older = clock("close", 10, &100_i64.to_be_bytes(), 105);
        assert_eq!(
            (older.was_closed(90), older.was_closed(91), older.closing()),
            (true, false, Some((91, 95)))
        );
    }
}
