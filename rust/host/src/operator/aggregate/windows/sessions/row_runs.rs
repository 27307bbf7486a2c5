//! Runs of an epoch's rows: rows of one key without a pause longer than the gap.

use crate::operator::input::RowPlace;
use crate::operator::numbering::KeyNumbers;

/// Rows of one key and one epoch that are in one session.
pub struct RowRun {
    /// The key's number.
    pub key: u32,
    /// The first row's time.
    pub first: i64,
    /// The last row's time.
    pub last: i64,
    /// The number of rows.
    pub rows: u64,
    /// The session's group; none if it is late.
    pub group: Option<u32>,
}

/// Cuts rows into runs at pauses longer than the gap, and numbers their keys. Returns the runs, and
/// each row with the number of its run.
pub fn row_runs<'a>(
    timed: impl Iterator<Item = (RowPlace, &'a [u8], i64)>,
    gap: i64,
    keys: &mut KeyNumbers,
) -> (Vec<RowRun>, Vec<(RowPlace, usize)>) {
    let (mut runs, mut rows) = (Vec::<RowRun>::new(), Vec::new());
    // The last run of each key so far. Rows come in the order of their times.
    let mut open: Vec<usize> = Vec::new();
    for (place, key, time) in timed {
        let key = keys.enter(key);
        let is_new_key = key as usize == open.len();
        let run = match open.get(key as usize) {
            Some(run) if time <= runs[*run].last.saturating_add(gap) => *run,
            _ => {
                runs.push(RowRun {
                    key,
                    first: time,
                    last: time,
                    rows: 0,
                    group: None,
                });
                runs.len() - 1
            }
        };
        runs[run].last = time;
        runs[run].rows += 1;
        if is_new_key {
            open.push(run)
        } else {
            open[key as usize] = run
        }
        rows.push((place, run));
    }
    (runs, rows)
}
