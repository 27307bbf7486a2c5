//! Runs of an epoch's rows: rows of one key without a pause longer than the gap.

use crate::operator::aggregate::groups::{Assigned, Groups};
use crate::operator::input::RowPlace;

/// Rows of one key and one epoch that are in one session.
pub struct RowRun {
    /// The key's number.
    pub key: u32,
    /// The first row's time.
    pub first: i64,
    /// The last row's time.
    pub last: i64,
    /// The session's group; none if it is late.
    pub group: Option<u32>,
}

/// The runs of an epoch's rows. The rows come in the order of their times, in parts, once or twice.
#[derive(Default)]
pub struct RowRuns {
    /// The runs, in the order of their first rows.
    pub runs: Vec<RowRun>,
    /// The last run of each key so far.
    open: Vec<Option<u32>>,
    /// The number of the next run.
    next: u32,
}

impl RowRuns {
    /// Cuts rows into runs at pauses longer than the gap, and numbers their keys. Returns each row
    /// with the number of its run, for [`Self::settle`].
    pub fn add<'a>(
        &mut self,
        timed: impl Iterator<Item = (RowPlace, &'a [u8], i64)>,
        gap: i64,
        groups: &mut Groups,
    ) -> Vec<Assigned> {
        let Self { runs, open, next } = self;
        let mut rows = Vec::new();
        for (place, key, time) in timed {
            let key = groups.enter_key(key);
            if open.len() <= key as usize {
                open.resize(key as usize + 1, None);
            }
            let is_near = |run: &u32| time <= runs[*run as usize].last.saturating_add(gap);
            let number = open[key as usize].filter(is_near).unwrap_or_else(|| {
                // In a second pass, the run is there with its last time.
                if *next as usize == runs.len() {
                    runs.push(RowRun {
                        key,
                        first: time,
                        last: time,
                        group: None,
                    });
                }
                *next += 1;
                *next - 1
            });
            let last = &mut runs[number as usize].last;
            *last = time.max(*last);
            open[key as usize] = Some(number);
            rows.push(Assigned {
                group: number,
                place,
            });
        }
        rows
    }

    /// Replaces the number of each row's run by that of its group. Removes late rows, and returns
    /// how many.
    pub fn settle(&self, rows: &mut Vec<Assigned>) -> u64 {
        let count = rows.len();
        rows.retain_mut(|row| {
            let group = self.runs[row.group as usize].group;
            row.group = group.unwrap_or(row.group);
            group.is_some()
        });
        (count - rows.len()) as u64
    }

    /// Starts a second pass over the same rows.
    pub fn restart(&mut self) {
        self.open.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_run_ends_where_the_next_row_of_its_key_is_more_than_the_gap_later(
            mut rows in prop::collection::vec((0..60_i64, 0..3_u8), 0..60), gap in 0..8_i64,
            part in 1..70_usize,
        ) {
            rows.sort_unstable();
            let keys: Vec<[u8; 1]> = rows.iter().map(|(_, key)| [*key]).collect();
            let timed: Vec<_> = rows.iter().zip(&keys)
                .map(|((time, _), key)| (RowPlace::new(true, 0, 0), key.as_slice(), *time))
                .collect();
            let (mut groups, mut found) = (Groups::default(), RowRuns::default());
            let mut pass = || -> Vec<u32> {
                let parts = timed.chunks(part);
                let places = parts
                    .flat_map(|part| found.add(part.iter().copied(), gap, &mut groups))
                    .map(|row| row.group)
                    .collect();
                found.restart();
                places
            };
            let places = pass();
            prop_assert_eq!(pass(), places.clone(), "a second pass");
            let runs = found.runs;
            // By key: the number and the last time of its run.
            let mut model: BTreeMap<u8, (u32, i64)> = BTreeMap::new();
            let mut expected: Vec<(u8, i64, i64)> = Vec::new();
            for ((time, key), run) in rows.iter().zip(places) {
                let number = match model.get(key) {
                    Some((number, last)) if time - last <= gap => *number,
                    _ => {
                        expected.push((*key, *time, *time));
                        expected.len() as u32 - 1
                    }
                };
                model.insert(*key, (number, *time));
                expected[number as usize].2 = *time;
                prop_assert_eq!(run, number);
            }
            let found: Vec<_> = runs.iter()
                .map(|run| (groups.key_bytes(run.key)[0], run.first, run.last))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(groups.count(), 0);
        }
    }
}
