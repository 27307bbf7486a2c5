//! Counts of late, expired, dropped and far-future rows, for the host's log.
//!
//! An operator has at most one line per minute, even if many partitions and epochs have such rows,
//! because the log of a host that runs for months is not rotated.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::{Counts, Epoch, OperatorName};

/// The minimum time between two lines of an operator.
const INTERVAL: Duration = Duration::from_secs(60);

/// Row counts of all operators of a host.
#[derive(Default)]
pub struct RowCounts {
    operators: Mutex<HashMap<(PathBuf, OperatorName), PendingCounts>>,
}

/// Counts since the operator's last line.
struct PendingCounts {
    first: Epoch,
    last: Epoch,
    counts: Counts,
    /// When the last line was logged.
    logged: Option<Instant>,
}

impl PendingCounts {
    fn take_line(&mut self, operator: &OperatorName, now: Instant) -> String {
        let Self {
            first,
            last,
            counts:
                Counts {
                    late,
                    expired,
                    dropped,
                    ahead,
                    ..
                },
            ..
        } = *self;
        let epochs = if first == last {
            format!("epoch {first}")
        } else {
            format!("epochs {first} to {last}")
        };
        *self = Self {
            counts: Counts::default(),
            logged: Some(now),
            ..*self
        };
        format!(
            "operator {operator}, {epochs}: {late} rows came too late, {expired} were before the \
             table's history, {dropped} had no key or no time, {ahead} are far-future rows (in \
             ahead/)"
        )
    }
}

impl RowCounts {
    /// Adds the counts of a session.
    pub fn add(&self, root: &Path, operator: &OperatorName, epoch: Epoch, counts: Counts) {
        if without_result(&counts) == 0 {
            return;
        }
        let mut operators = self.operators.lock();
        let empty = || PendingCounts {
            first: epoch,
            last: epoch,
            counts: Counts::default(),
            logged: None,
        };
        let pending = operators
            .entry((root.to_owned(), operator.clone()))
            .or_insert_with(empty);
        if without_result(&pending.counts) == 0 {
            (pending.first, pending.last) = (epoch, epoch);
        }
        (pending.first, pending.last) = (pending.first.min(epoch), pending.last.max(epoch));
        pending.counts.late += counts.late;
        pending.counts.expired += counts.expired;
        pending.counts.dropped += counts.dropped;
        pending.counts.ahead += counts.ahead;
    }

    /// Returns the lines that are due and resets their counts. `all` includes operators whose last
    /// line was less than a minute ago.
    #[must_use]
    pub fn take_lines(&self, now: Instant, all: bool) -> Vec<String> {
        let mut operators = self.operators.lock();
        let is_due = |pending: &PendingCounts| {
            without_result(&pending.counts) > 0
                && (all
                    || pending
                        .logged
                        .is_none_or(|logged| now.duration_since(logged) >= INTERVAL))
        };
        operators
            .iter_mut()
            .filter(|(_, pending)| is_due(pending))
            .map(|((_, operator), pending)| pending.take_line(operator, now))
            .collect()
    }
}

/// How many rows have no result, or a result without a row of the table.
fn without_result(counts: &Counts) -> u64 {
    counts.late + counts.expired + counts.dropped + counts.ahead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_has_one_line_a_minute_with_the_sums() {
        let (row_counts, name) = (
            RowCounts::default(),
            OperatorName::new("join").expect("a name"),
        );
        let counts = Counts {
            late: 2,
            expired: 3,
            dropped: 1,
            ..Counts::default()
        };
        let add = |epoch| row_counts.add(Path::new("/r"), &name, Epoch(epoch), counts);
        let start = Instant::now();
        let line = |epochs: &str, late: u64, dropped: u64| {
            let expired = 3 * dropped;
            vec![format!(
                "operator join, {epochs}: {late} rows came too late, {expired} were before the \
                 table's history, {dropped} had no key or no time, 0 are far-future rows (in \
                 ahead/)"
            )]
        };
        row_counts.add(Path::new("/r"), &name, Epoch(0), Counts::default());
        assert!(
            row_counts.take_lines(start, true).is_empty(),
            "nothing to say"
        );
        add(1);
        assert_eq!(
            row_counts.take_lines(start, false),
            line("epoch 1", 2, 1),
            "the first at once"
        );
        // Four partitions of a hundred epochs.
        for epoch in 2..102 {
            (0..4).for_each(|_| add(epoch));
            assert!(
                row_counts
                    .take_lines(start + INTERVAL / 2, false)
                    .is_empty()
            );
        }
        assert_eq!(
            row_counts.take_lines(start + INTERVAL, false),
            line("epochs 2 to 101", 800, 400)
        );
        add(102);
        assert!(row_counts.take_lines(start + INTERVAL, false).is_empty());
        assert_eq!(
            row_counts.take_lines(start + INTERVAL, true),
            line("epoch 102", 2, 1),
            "the last ones at the end"
        );
    }
}
