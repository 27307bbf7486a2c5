//! Runs of an epoch's rows: rows of one key without a pause longer than the gap.

use crate::operator::aggregate::groups::Groups;

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

/// Cuts rows into runs at pauses longer than the gap, and numbers their keys. Returns the runs, and
/// each row with the number of its run. The rows come in the order of their times.
pub fn row_runs<'a, P>(
    timed: impl Iterator<Item = (P, &'a [u8], i64)>,
    gap: i64,
    groups: &mut Groups,
) -> (Vec<RowRun>, Vec<(P, u32)>) {
    let (mut runs, mut rows) = (Vec::<RowRun>::new(), Vec::new());
    // The last run of each key so far.
    let mut open: Vec<Option<u32>> = Vec::new();
    for (place, key, time) in timed {
        let key = groups.enter_key(key);
        if open.len() <= key as usize {
            open.resize(key as usize + 1, None);
        }
        let is_near = |run: &u32| time <= runs[*run as usize].last.saturating_add(gap);
        let number = open[key as usize].filter(is_near).unwrap_or_else(|| {
            runs.push(RowRun {
                key,
                first: time,
                last: time,
                group: None,
            });
            runs.len() as u32 - 1
        });
        runs[number as usize].last = time;
        open[key as usize] = Some(number);
        rows.push((place, number));
    }
    (runs, rows)
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
        ) {
            rows.sort_unstable();
            let keys: Vec<[u8; 1]> = rows.iter().map(|(_, key)| [*key]).collect();
            let timed = rows.iter().zip(&keys)
                .map(|((time, _), key)| ((), key.as_slice(), *time));
            let mut groups = Groups::default();
            let (runs, places) = row_runs(timed, gap, &mut groups);
            // By key: the number and the last time of its run.
            let mut model: BTreeMap<u8, (u32, i64)> = BTreeMap::new();
            let mut expected: Vec<(u8, i64, i64)> = Vec::new();
            for ((time, key), ((), run)) in rows.iter().zip(places) {
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
