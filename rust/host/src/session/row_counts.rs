//! Rows that came to nothing, summed up for the host's log: a line an operator at most once a
//! minute, however many partitions and epochs have some, since nobody rotates the log of a host
//! that lives for months.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::operator::Counts;
use crate::protocol::{Epoch, OperatorName};

/// From one line of an operator to its next one.
const INTERVAL: Duration = Duration::from_secs(60);

/// The sums of a host.
#[derive(Default)]
pub struct Tally {
    operators: Mutex<HashMap<(PathBuf, OperatorName), Sums>>,
}

/// What has come together since the operator's last line.
struct Sums {
    first: Epoch,
    last: Epoch,
    late: u64,
    dropped: u64,
    ahead: u64,
    /// When the last line was.
    said: Option<Instant>,
}

impl Sums {
    fn line(&mut self, operator: &OperatorName, now: Instant) -> String {
        let Self {
            first,
            last,
            late,
            dropped,
            ahead,
            ..
        } = *self;
        let epochs = if first == last {
            format!("epoch {first}")
        } else {
            format!("epochs {first} to {last}")
        };
        *self = Self {
            late: 0,
            dropped: 0,
            ahead: 0,
            said: Some(now),
            ..*self
        };
        format!(
            "operator {operator}, {epochs}: {late} rows came too late, {dropped} had no key or no \
             time, {ahead} were set aside"
        )
    }

    fn is_empty(&self) -> bool {
        self.late + self.dropped + self.ahead == 0
    }
}

impl Tally {
    /// Adds what a session has counted.
    pub fn add(&self, root: &Path, operator: &OperatorName, epoch: Epoch, counts: Counts) {
        let Counts {
            late,
            dropped,
            ahead,
            ..
        } = counts;
        if late + dropped + ahead == 0 {
            return;
        }
        let mut operators = self.operators.lock();
        let none = || Sums {
            first: epoch,
            last: epoch,
            late: 0,
            dropped: 0,
            ahead: 0,
            said: None,
        };
        let sums = operators
            .entry((root.to_owned(), operator.clone()))
            .or_insert_with(none);
        if sums.is_empty() {
            (sums.first, sums.last) = (epoch, epoch);
        }
        (sums.first, sums.last) = (sums.first.min(epoch), sums.last.max(epoch));
        sums.late += late;
        sums.dropped += dropped;
        sums.ahead += ahead;
    }

    /// The lines that are due; `all`: those of operators whose last one was just now, too.
    #[must_use]
    pub fn lines(&self, now: Instant, all: bool) -> Vec<String> {
        let mut operators = self.operators.lock();
        let due = |sums: &Sums| {
            !sums.is_empty()
                && (all
                    || sums
                        .said
                        .is_none_or(|said| now.duration_since(said) >= INTERVAL))
        };
        operators
            .iter_mut()
            .filter(|(_, sums)| due(sums))
            .map(|((_, operator), sums)| sums.line(operator, now))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_has_one_line_a_minute_with_the_sums() {
        let (tally, name) = (Tally::default(), OperatorName::new("join").expect("a name"));
        let counts = Counts {
            late: 2,
            dropped: 1,
            ..Counts::default()
        };
        let add = |epoch| tally.add(Path::new("/r"), &name, Epoch(epoch), counts);
        let start = Instant::now();
        let line = |epochs: &str, late: u64, dropped: u64| {
            vec![format!(
                "operator join, {epochs}: {late} rows came too late, {dropped} had no key or no \
                 time, 0 were set aside"
            )]
        };
        tally.add(Path::new("/r"), &name, Epoch(0), Counts::default());
        assert!(tally.lines(start, true).is_empty(), "nothing to say");
        add(1);
        assert_eq!(
            tally.lines(start, false),
            line("epoch 1", 2, 1),
            "the first at once"
        );
        // Four partitions of a hundred epochs.
        for epoch in 2..102 {
            (0..4).for_each(|_| add(epoch));
            assert!(tally.lines(start + INTERVAL / 2, false).is_empty());
        }
        assert_eq!(
            tally.lines(start + INTERVAL, false),
            line("epochs 2 to 101", 800, 400)
        );
        add(102);
        assert!(tally.lines(start + INTERVAL, false).is_empty());
        assert_eq!(
            tally.lines(start + INTERVAL, true),
            line("epoch 102", 2, 1),
            "the last ones at the end"
        );
    }
}
