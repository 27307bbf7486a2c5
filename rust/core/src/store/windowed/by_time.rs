//! A scan of the rows of many keys by (time, key).

use super::layout;
use super::row::WindowedRow;
use super::selection::Selection;
use crate::error::Result;
use crate::store::key_part::{key_part, push_key};
use crate::transaction::{Scan, Step, Table, Transaction};
use std::collections::VecDeque;
use std::ops::Range;

/// How many rows the first chunk looks up: few, for callers that read few.
const FIRST_CHUNK: usize = 16;
const CHUNK: usize = 1024;
/// About how many bytes of values a chunk has.
const CHUNK_BYTES: usize = 1 << 20;
/// How many rows with keys out of range a forward scan skips one by one before it seeks.
const STEPS: usize = 8;

/// Rows by (time, key). Their keys are from the `times` table; their values are looked up in the
/// same view, chunk by chunk.
pub(super) struct RowsByTime {
    scan: Scan,
    view: Transaction,
    windowed: Table,
    key_from: Option<Vec<u8>>,
    key_to: Option<Vec<u8>>,
    reverse: bool,
    chunk: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    /// Rows of the chunk that were not visited yet: row key and value.
    ready: VecDeque<(Range<usize>, Range<usize>)>,
    key: Vec<u8>,
}

impl RowsByTime {
    /// A scan of the `times` rows in `scan`; their values are looked up in `view`.
    pub(super) fn new(
        scan: Scan,
        view: Transaction,
        windowed: Table,
        selection: &Selection<'_>,
    ) -> Self {
        Self {
            scan,
            view,
            windowed,
            key_from: selection.key_from.map(key_part),
            key_to: selection.key_to.map(key_part),
            reverse: selection.reverse,
            chunk: FIRST_CHUNK,
            keys: Vec::new(),
            values: Vec::new(),
            ready: VecDeque::new(),
            key: Vec::new(),
        }
    }
    /// Calls `visit` with each row until it returns false or the scan ends. Returns true if `visit`
    /// stopped the scan.
    pub(super) fn for_each(
        &mut self,
        shown: &dyn Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(WindowedRow<'_>) -> bool,
    ) -> Result<bool> {
        loop {
            while let Some((row_key, value)) = self.ready.pop_front() {
                let row_key = &self.keys[row_key];
                let (part, time, more) =
                    layout::split_row(row_key).ok_or_else(|| layout::malformed(row_key))?;
                self.key.clear();
                push_key(part, &mut self.key);
                if !visit(WindowedRow {
                    key: &self.key,
                    time,
                    more,
                    value: &self.values[value],
                }) {
                    return Ok(true);
                }
            }
            if !self.fill(shown)? {
                return Ok(false);
            }
        }
    }

    /// Reads the next chunk; false at the end.
    fn fill(&mut self, shown: &dyn Fn(&[u8]) -> bool) -> Result<bool> {
        let Self {
            scan,
            view,
            windowed,
            key_from,
            key_to,
            reverse,
            chunk,
            keys,
            values,
            ready,
            ..
        } = self;
        keys.clear();
        values.clear();
        let mut places: Vec<Range<usize>> = Vec::with_capacity(*chunk);
        let mut passed = 0;
        let mut damaged = None;
        scan.for_each(&mut |times_key, _| {
            let Some((time, part, more)) = layout::split_times_row(times_key) else {
                damaged = Some(layout::malformed(times_key));
                return Step::Pause;
            };
            let too_low = key_from.as_deref().is_some_and(|from| part < from);
            let too_high = key_to.as_deref().is_some_and(|to| part > to);
            if too_low || too_high {
                passed += 1;
                if passed <= STEPS || *reverse {
                    return Step::Next;
                }
                passed = 0;
                let time = if too_low {
                    Some(time)
                } else {
                    time.checked_add(1)
                };
                return time.map_or(Step::Next, |time| {
                    Step::Seek(
                        [
                            layout::ordered(time).as_slice(),
                            key_from.as_deref().unwrap_or_default(),
                        ]
                        .concat(),
                    )
                });
            }
            passed = 0;
            if !shown(more) {
                return Step::Next;
            }
            let start = keys.len();
            keys.extend_from_slice(part);
            keys.extend_from_slice(&layout::ordered(time));
            keys.extend_from_slice(more);
            places.push(start..keys.len());
            if places.len() == *chunk {
                Step::Pause
            } else {
                Step::Next
            }
        })?;
        if let Some(error) = damaged {
            return Err(error);
        }
        let wanted: Vec<&[u8]> = places.iter().map(|place| &keys[place.clone()]).collect();
        let mut found: Vec<Option<Range<usize>>> = vec![None; wanted.len()];
        view.get_batch(*windowed, &wanted, |n, value| {
            found[n] = value.map(|value| {
                let start = values.len();
                values.extend_from_slice(value);
                start..values.len()
            });
        })?;
        let rows = wanted.len();
        let mean = values.len() / rows.max(1) + 1;
        *chunk = (*chunk * 4)
            .min(CHUNK_BYTES / mean)
            .clamp(FIRST_CHUNK, CHUNK);
        // A row that is in only one of the tables is before the horizon. Such rows have expired.
        ready.extend(
            places
                .into_iter()
                .zip(found)
                .filter_map(|(key, value)| Some((key, value?))),
        );
        Ok(rows > 0)
    }
}
