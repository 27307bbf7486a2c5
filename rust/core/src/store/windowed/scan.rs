//! A scan of rows: of one key by time, or of many by (time, key).

use super::{Rows, layout};
use crate::error::Result;
use crate::metrics::OpenIterator;
use crate::store::key_part::{key_part, push_key};
use crate::store::key_value::successor;
use crate::table::{Bounds, TIME_BYTES};
use crate::transaction::{Scan, Step, Table, Transaction};
use std::collections::VecDeque;
use std::ops::Range;

/// Rows that a scan over many keys looks up at once: few first, for who wants few.
const FIRST_CHUNK: usize = 16;
const CHUNK: usize = 1024;
/// Bytes of values that a chunk is to stay near.
const CHUNK_BYTES: usize = 1 << 20;
/// Rows of keys out of range that a scan steps over before it seeks.
const STEPS: usize = 8;

/// Which rows a scan is to show.
#[derive(Clone, Copy)]
pub(in crate::store) struct Selection<'a> {
    /// First key, inclusive; `None` is open.
    pub(in crate::store) key_from: Option<&'a [u8]>,
    /// Last key, inclusive; `None` is open.
    pub(in crate::store) key_to: Option<&'a [u8]>,
    /// First time, inclusive.
    pub(in crate::store) from: i64,
    /// Last time, inclusive.
    pub(in crate::store) to: i64,
    /// The greatest that `more` may be: the latest start of a session.
    pub(in crate::store) most: Option<[u8; TIME_BYTES]>,
    /// Latest time first, and of one time the greatest key first.
    pub(in crate::store) reverse: bool,
}

/// A row that was found.
#[derive(Clone, Copy)]
pub(in crate::store) struct Row<'a> {
    pub(in crate::store) key: &'a [u8],
    pub(in crate::store) time: i64,
    pub(in crate::store) more: &'a [u8],
    pub(in crate::store) value: &'a [u8],
}

/// An open scan: rows as they were when it was opened.
pub(in crate::store) struct RowScan {
    source: Source,
    most: Option<[u8; TIME_BYTES]>,
    rows: Rows,
    _open: OpenIterator,
}

enum Source {
    Nothing,
    /// The rows of one key.
    Key {
        scan: Box<Scan>,
        key: Vec<u8>,
        part_len: usize,
    },
    Times(Box<ByTime>),
}

/// Rows by (time, key): their keys from the `times` table, their values looked up chunk by chunk in
/// the same view.
struct ByTime {
    scan: Scan,
    view: Transaction,
    windowed: Table,
    key_from: Option<Vec<u8>>,
    key_to: Option<Vec<u8>>,
    reverse: bool,
    chunk: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    /// Rows of the chunk that have not been shown: row key and value.
    ready: VecDeque<(Range<usize>, Range<usize>)>,
    key: Vec<u8>,
}

impl Rows {
    /// Opens a scan.
    pub(in crate::store) fn scan(
        &self,
        tx: &mut Transaction,
        wanted: Selection<'_>,
    ) -> Result<RowScan> {
        let from = wanted.from.max(self.horizon(tx));
        let keys_are_in_order = match (wanted.key_from, wanted.key_to) {
            (Some(from), Some(to)) => from <= to,
            _ => true,
        };
        let source = match (wanted.key_from, wanted.key_to) {
            _ if from > wanted.to || !keys_are_in_order => Source::Nothing,
            (Some(key), Some(to)) if key == to => {
                let part = key_part(key);
                let bounds = key_bounds(&part, from, wanted.to);
                let scan = tx
                    .scan(self.inner.windowed, bounds, wanted.reverse)
                    .map_err(|e| self.named(e).key(key))?;
                Source::Key {
                    scan: Box::new(scan),
                    key: key.to_vec(),
                    part_len: part.len(),
                }
            }
            (key_from, key_to) => {
                let bounds = Bounds {
                    lower: Some(layout::ordered(from).to_vec()),
                    upper: behind(wanted.to),
                    within_key: false,
                };
                let scan = tx
                    .scan(self.inner.times, bounds, wanted.reverse)
                    .map_err(|e| self.named(e))?;
                Source::Times(Box::new(ByTime {
                    scan,
                    view: tx.reader(),
                    windowed: self.inner.windowed,
                    key_from: key_from.map(key_part),
                    key_to: key_to.map(key_part),
                    reverse: wanted.reverse,
                    chunk: FIRST_CHUNK,
                    keys: Vec::new(),
                    values: Vec::new(),
                    ready: VecDeque::new(),
                    key: Vec::new(),
                }))
            }
        };
        Ok(RowScan {
            source,
            most: wanted.most,
            rows: self.clone(),
            _open: self.inner.counts.iterator(),
        })
    }
}

/// The first bytes behind all rows of a time; `None` behind the last time.
fn behind(time: i64) -> Option<Vec<u8>> {
    time.checked_add(1)
        .map(|next| layout::ordered(next).to_vec())
}

/// The bounds of one key's rows between two times, both inclusive.
pub(super) fn key_bounds(part: &[u8], from: i64, to: i64) -> Bounds {
    let upper = match behind(to) {
        Some(end) => Some([part, &end].concat()),
        None => successor(part),
    };
    Bounds {
        lower: Some([part, &layout::ordered(from)].concat()),
        upper,
        within_key: false,
    }
}

impl RowScan {
    /// Hands rows to `visit` until it answers false or they end; true when it stopped, and the scan
    /// can be resumed.
    pub(in crate::store) fn for_each(
        &mut self,
        visit: &mut dyn FnMut(Row<'_>) -> bool,
    ) -> Result<bool> {
        let Self {
            source, most, rows, ..
        } = self;
        let shown = |more: &[u8]| most.as_ref().is_none_or(|most| more <= most.as_slice());
        match source {
            Source::Nothing => Ok(false),
            Source::Key {
                scan,
                key,
                part_len,
            } => {
                let mut damaged = None;
                let paused = scan.for_each(&mut |row_key, value| {
                    let Some((time, more)) = layout::split_time(&row_key[*part_len..]) else {
                        damaged = Some(layout::malformed(row_key));
                        return Step::Pause;
                    };
                    if !shown(more)
                        || visit(Row {
                            key,
                            time,
                            more,
                            value,
                        })
                    {
                        Step::Next
                    } else {
                        Step::Pause
                    }
                });
                damaged.map_or(paused, Err)
            }
            Source::Times(by_time) => by_time.for_each(&shown, visit),
        }
        .map_err(|e| rows.named(e))
    }
}

impl ByTime {
    fn for_each(
        &mut self,
        shown: &dyn Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(Row<'_>) -> bool,
    ) -> Result<bool> {
        loop {
            while let Some((row_key, value)) = self.ready.pop_front() {
                let row_key = &self.keys[row_key];
                let (part, time, more) =
                    layout::split_row(row_key).ok_or_else(|| layout::malformed(row_key))?;
                self.key.clear();
                push_key(part, &mut self.key);
                if !visit(Row {
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
        // What only one of the tables still has lies below the horizon, and this scan begins at it.
        ready.extend(
            places
                .into_iter()
                .zip(found)
                .filter_map(|(key, value)| Some((key, value?))),
        );
        Ok(rows > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::windowed::Wanted;
    use crate::{Database, DatabaseOptions, ErrorKind, StoreKind, StoreSpec};

    /// Rows of keys that nobody of ours writes are an error wherever a read meets them, never
    /// passed over.
    #[test]
    fn a_malformed_row_is_an_error() -> Result<()> {
        let kind = StoreKind::Session { retention: 1_000 };
        let db =
            Database::open_in_memory(&[StoreSpec::new("s", kind)], DatabaseOptions::default())?;
        let rows = db.session("s")?.rows;
        let all = |key: Option<&'static [u8]>| Selection {
            key_from: key,
            key_to: key,
            from: 0,
            to: i64::MAX,
            most: None,
            reverse: false,
        };
        let (part, cut) = (key_part(b"a"), &layout::ordered(1 << 40)[..7]);
        let refused = |result: Result<()>| {
            let error = result.expect_err("a malformed row");
            assert_eq!(error.kind(), ErrorKind::StoreCorrupted);
            assert!(error.to_string().contains("store: s"), "{error}");
        };
        let mut tx = db.begin()?;
        tx.stage(rows.inner.windowed, &[&part, cut], Some(&[b"v"]), false)?;
        refused(
            rows.scan(&mut tx, all(Some(b"a")))?
                .for_each(&mut |_| true)
                .map(drop),
        );
        refused(rows.find(
            &mut tx,
            &[Wanted {
                key: b"a",
                from: 0,
                to: i64::MAX,
                most: None,
            }],
            &mut |_, _| {},
        ));
        refused(rows.for_each_staged(&mut tx, |_, _, _, _| Ok(())));
        let mut tx = db.begin()?;
        tx.stage(
            rows.inner.times,
            &[&layout::ordered(5), b"no key part"],
            Some(&[]),
            false,
        )?;
        refused(
            rows.scan(&mut tx, all(None))?
                .for_each(&mut |_| true)
                .map(drop),
        );
        Ok(())
    }
}
