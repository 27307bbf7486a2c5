//! Stream time where no rows arrive: which partitions are idle, and which time they follow.
//!
//! A partition with rows follows its own rows only. A partition without rows follows others only
//! after it has been idle for `idle_after`, and only as far as the slowest partition that had rows
//! since. So while a query works through its backlog after an outage, no partition's stream time
//! is ahead of rows that are still to come. The only exceptions are rows that stay away for longer
//! than `idle_after` while other partitions advance. Once all sources but the heartbeats have been
//! idle for `idle_after`, partitions without rows also follow the batch time minus `idle_after`.
//!
//! All times are in microseconds. They come from rows, and from batch timestamps and offsets in
//! Spark's checkpoint, so a replay computes the same times. The time between two runs does not
//! count as idle, and the time between two micro-batches counts as at most half of `idle_after`.
//! Otherwise the epochs after an outage, or after one long micro-batch, could make the next rows of
//! the backlog late.

use super::heartbeats::Heartbeats;

/// Since when a partition and the sources of its query have been idle, in epoch microseconds; none
/// if they are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleTimes {
    /// The partition.
    pub partition: Option<i64>,
    /// All sources but the heartbeats.
    pub sources: Option<i64>,
}

/// The times of a partition at the end of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionTimes {
    /// The stream time; none if it has had no row with a time and has followed no other time.
    pub stream_time: Option<i64>,
    /// Since when it is idle; none if it had rows in the epoch, or if the epoch was skipped.
    pub idle_since: Option<i64>,
}

/// The times of a micro-batch and of the one before it.
#[derive(Clone, Copy, Debug)]
pub struct BatchTimes {
    /// The time of the micro-batch before; none if there is no such micro-batch, or if its time is
    /// not known.
    pub previous: Option<i64>,
    /// The micro-batch's own time.
    pub now: i64,
}

impl PartitionTimes {
    /// Returns a partition's times for a comparison in this epoch, as if it had no rows in it.
    /// `self`: its times after the epoch before. If it was not idle then, it is not idle in the
    /// result.
    ///
    /// A part of the time between the two epochs does not count as idle ([`idle_since`]). This
    /// method leaves that part out for each partition, so their times can be compared.
    #[must_use]
    pub fn without_rows(self, batch: BatchTimes, heartbeats: Heartbeats) -> Self {
        let since = |since| idle_since(Some(since), false, batch, heartbeats);
        Self {
            idle_since: self.idle_since.and_then(since),
            ..self
        }
    }
}

/// Returns since when a partition, or all sources, are idle at the end of an epoch.
///
/// `before`: the result for the epoch before. `moved`: the partition had rows, or a source moved.
#[must_use]
pub fn idle_since(
    before: Option<i64>,
    moved: bool,
    batch: BatchTimes,
    heartbeats: Heartbeats,
) -> Option<i64> {
    if moved {
        return None;
    }
    // The idle time begins with the first epoch without rows, not with the last epoch with rows:
    // there may be an outage between the two.
    let (Some(since), Some(previous)) = (before, batch.previous) else {
        return Some(batch.now);
    };
    let elapsed = batch.now.saturating_sub(previous);
    // During a long micro-batch rows may have come in that are read slice by slice.
    let not_counted = elapsed.saturating_sub(heartbeats.idle_after / 2).max(0);
    let since = since.saturating_add(not_counted);
    Some(since.max(heartbeats.started).min(batch.now))
}

/// Returns the time that a partition without rows follows in an epoch; none if it follows none.
///
/// `idle_since` and `sources_idle_since` are those of this epoch. `partitions` are the times of all
/// partitions of the operator at the end of the epoch before, each converted by
/// [`PartitionTimes::without_rows`]. The partition's new stream time is the later one of its
/// current stream time and the returned time.
#[must_use]
pub fn followed_time(
    idle_since: i64,
    sources_idle_since: Option<i64>,
    partitions: &[PartitionTimes],
    batch_time: i64,
    idle_after: i64,
) -> Option<i64> {
    let is_idle = |since: i64| batch_time.saturating_sub(since) >= idle_after;
    let of_clock = sources_idle_since
        .filter(|since| is_idle(*since))
        .map(|_| batch_time.saturating_sub(idle_after));
    if !is_idle(idle_since) {
        return of_clock;
    }
    let had_rows_since =
        |other: &&PartitionTimes| other.idle_since.is_none_or(|at| at > idle_since);
    let of_others = partitions
        .iter()
        .filter(had_rows_since)
        .filter_map(|other| other.stream_time)
        .min();
    of_clock.max(of_others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    const MINUTE: i64 = 60 * SECOND;

    fn times(stream_time: i64, idle_since: Option<i64>) -> PartitionTimes {
        PartitionTimes {
            stream_time: Some(stream_time),
            idle_since,
        }
    }

    #[test]
    fn idle_begins_with_the_first_epoch_without_rows_of_a_run() {
        let since = |before, moved, (previous, now), started| {
            let heartbeats = Heartbeats {
                idle_after: MINUTE,
                started,
            };
            idle_since(before, moved, BatchTimes { previous, now }, heartbeats)
        };
        assert_eq!(since(None, false, (Some(60), 70), 10), Some(70));
        assert_eq!(since(Some(70), false, (Some(80), 90), 10), Some(70));
        assert_eq!(since(Some(70), true, (Some(80), 90), 10), None);
        // The query was stopped from 90 to 200.
        assert_eq!(since(Some(70), false, (Some(90), 210), 200), Some(200));
        assert_eq!(since(Some(70), false, (None, 90), 10), Some(90));
    }

    #[test]
    fn a_long_micro_batch_counts_as_half_of_idle_after() {
        let heartbeats = Heartbeats {
            idle_after: MINUTE,
            started: 0,
        };
        let since = |before, previous, now| {
            let previous = Some(previous);
            idle_since(
                Some(before),
                false,
                BatchTimes { previous, now },
                heartbeats,
            )
        };
        let half = MINUTE / 2;
        assert_eq!(since(HOUR, HOUR, HOUR + half), Some(HOUR));
        assert_eq!(since(HOUR, HOUR, 2 * HOUR), Some(2 * HOUR - half));
        // After two of them, it is idle.
        let idle = since(2 * HOUR - half, 2 * HOUR, 3 * HOUR);
        assert_eq!(idle, Some(3 * HOUR - MINUTE));
        assert_eq!(
            followed_time(3 * HOUR - MINUTE, idle, &[], 3 * HOUR, MINUTE),
            Some(3 * HOUR - MINUTE)
        );
        // A clock that was set back.
        assert_eq!(since(HOUR, 2 * HOUR, HOUR + half), Some(HOUR));
    }

    #[test]
    fn an_idle_partition_follows_the_slowest_that_had_rows_since() {
        let partitions = [
            times(500, None),          // had rows in the epoch before
            times(300, Some(20)),      // became idle after it
            times(100, Some(10)),      // has been idle as long as it
            times(50, Some(5)),        // and longer
            PartitionTimes::default(), // has no stream time
        ];
        assert_eq!(followed_time(10, None, &partitions, 70, 60), Some(300));
        assert_eq!(followed_time(10, None, &partitions[..1], 70, 60), Some(500));
        assert_eq!(
            followed_time(11, None, &partitions, 70, 60),
            None,
            "too early"
        );
        assert_eq!(followed_time(10, None, &partitions[2..4], 70, 60), None);
        assert_eq!(followed_time(10, None, &[], 70, 60), None);
    }

    #[test]
    fn the_batch_time_is_followed_once_all_sources_are_idle() {
        let partitions = [times(-5, None)];
        assert_eq!(followed_time(10, Some(10), &partitions, 70, 60), Some(10));
        assert_eq!(followed_time(10, Some(11), &partitions, 70, 60), Some(-5));
        assert_eq!(followed_time(70, Some(10), &partitions, 70, 60), Some(10));
        let ahead = [times(40, None)];
        assert_eq!(followed_time(10, Some(10), &ahead, 70, 60), Some(40));
    }

    /// Two partitions whose rows come slice by slice, one in each micro-batch; returns how many
    /// rows were late. `batch_time` gives the time of each micro-batch, and of the one before the
    /// first (-1).
    fn late_rows(slices: &[(usize, i64)], batch_time: impl Fn(i64) -> i64, started: i64) -> usize {
        let heartbeats = Heartbeats {
            idle_after: MINUTE,
            started,
        };
        // Partition 1 was idle before the first slice.
        let mut partitions = [times(0, None), times(0, Some(batch_time(-1) - 30 * SECOND))];
        let mut late = 0;
        for (number, (partition, time)) in (0..).zip(slices) {
            let batch = BatchTimes {
                previous: Some(batch_time(number - 1)),
                now: batch_time(number),
            };
            let before = partitions.map(|times| times.without_rows(batch, heartbeats));
            for (p, now) in partitions.iter_mut().enumerate() {
                let had_rows = p == *partition;
                now.idle_since = idle_since(now.idle_since, had_rows, batch, heartbeats);
                let followed = now.idle_since.and_then(|since| {
                    followed_time(since, None, &before, batch.now, heartbeats.idle_after)
                });
                if had_rows {
                    late += usize::from(now.stream_time > Some(*time));
                    now.stream_time = now.stream_time.max(Some(*time));
                }
                now.stream_time = now.stream_time.max(followed);
            }
        }
        late
    }

    /// Every sixth slice has rows of partition 1, which are ten minutes behind the others.
    fn backlog() -> Vec<(usize, i64)> {
        let slice = |n| match n % 6 {
            3 => (1, (n - 10) * MINUTE),
            _ => (0, n * MINUTE),
        };
        (10..70).map(slice).collect()
    }

    #[test]
    fn a_long_micro_batch_keeps_the_order_of_idle_partitions() {
        let heartbeats = Heartbeats {
            idle_after: MINUTE,
            started: 0,
        };
        let batch = BatchTimes {
            previous: Some(100 * SECOND),
            now: 1_000 * SECOND,
        };
        let since = idle_since(Some(60 * SECOND), false, batch, heartbeats).expect("is idle");
        // One partition became idle after this one, and is slower than the active one.
        let partitions = [
            times(500, None),
            times(100, Some(80 * SECOND)),
            times(50, Some(60 * SECOND)),
        ];
        let partitions = partitions.map(|times| times.without_rows(batch, heartbeats));
        let followed = followed_time(since, None, &partitions, batch.now, MINUTE);
        assert_eq!(followed, Some(100));
    }

    #[test]
    fn a_backlog_after_an_outage_has_no_late_rows() {
        let outage = |number: i64| match number {
            -1 => 0,
            number => 2 * HOUR + number * 5 * SECOND,
        };
        assert_eq!(late_rows(&backlog(), outage, 2 * HOUR), 0);
        // If the outage counted as idle, partition 1 would follow in the first epochs.
        assert_ne!(late_rows(&backlog(), outage, -HOUR), 0);
        // The rows of partition 1 stay away for longer than a minute of processing.
        let away: Vec<(usize, i64)> = (0..20)
            .map(|n| (usize::from(n == 19), if n == 19 { 1 } else { n * MINUTE }))
            .collect();
        assert_ne!(late_rows(&away, outage, 2 * HOUR), 0);
    }

    #[test]
    fn a_backlog_after_a_long_micro_batch_has_no_late_rows() {
        let long = |number: i64| match number {
            ..1 => number * 5 * SECOND,
            number => HOUR + number * 5 * SECOND,
        };
        assert_eq!(late_rows(&backlog(), long, -5 * SECOND), 0);
    }
}
