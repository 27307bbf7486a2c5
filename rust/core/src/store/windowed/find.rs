//! Many short scans at once: rows of many keys, each between times of its own, in one pass over the
//! table.

use super::layout::{self, key_bounds};
use super::row::WindowedRow;
use super::rows::WindowedRows;
use crate::error::Result;
use crate::rocks::Bounds;
use crate::store::key_part::key_part;
use crate::transaction::{Step, TIME_BYTES, Transaction};
use std::ops::Range;

/// The rows of a key that one asks for.
#[derive(Clone, Copy)]
pub(in crate::store) struct KeySpan<'a> {
    pub(in crate::store) key: &'a [u8],
    /// First time, inclusive.
    pub(in crate::store) from: i64,
    /// Last time, inclusive.
    pub(in crate::store) to: i64,
    /// The greatest that `more` may be: the latest start of a session.
    pub(in crate::store) most: Option<[u8; TIME_BYTES]>,
}

/// All that is asked of one key: its rows are read once, whoever asks.
struct KeyGroup {
    part: Vec<u8>,
    bounds: Bounds,
    /// Positions among those who ask.
    askers: Vec<usize>,
}

/// A row that was found for one who asks.
struct FoundRow {
    asker: usize,
    time: i64,
    more: Range<usize>,
    value: Range<usize>,
}

impl WindowedRows {
    /// Finds rows for all who ask; `f` is called with the asker's position, by asker, then by time.
    pub(in crate::store) fn find(
        &self,
        tx: &mut Transaction,
        wanted: &[KeySpan<'_>],
        f: &mut dyn FnMut(usize, WindowedRow<'_>),
    ) -> Result<()> {
        let horizon = self.horizon(tx);
        let groups = groups(wanted, horizon);
        let (Some(first), Some(last)) = (groups.first(), groups.last()) else {
            return Ok(());
        };
        let all = Bounds {
            lower: first.bounds.lower.clone(),
            upper: last.bounds.upper.clone(),
            within_key: false,
        };
        let mut scan = tx
            .scan(self.inner.windowed, all, false)
            .map_err(|e| self.named(e))?;
        let mut bytes = Vec::new();
        let mut matches: Vec<FoundRow> = Vec::new();
        let mut at = 0;
        let mut damaged = None;
        scan.for_each(&mut |row_key, value| {
            while groups.get(at).is_some_and(|group| {
                group
                    .bounds
                    .upper
                    .as_deref()
                    .is_some_and(|upper| row_key >= upper)
            }) {
                at += 1;
            }
            let Some(group) = groups.get(at) else {
                return Step::Pause;
            };
            if let Some(lower) = &group.bounds.lower
                && row_key < lower.as_slice()
            {
                return Step::Seek(lower.clone());
            }
            let Some((time, more)) = layout::split_time(&row_key[group.part.len()..]) else {
                damaged = Some(layout::malformed(row_key));
                return Step::Pause;
            };
            let mut place = None;
            for asker in &group.askers {
                let asked = &wanted[*asker];
                if time < asked.from
                    || time > asked.to
                    || asked.most.is_some_and(|most| more > most.as_slice())
                {
                    continue;
                }
                let (more, value) = place
                    .get_or_insert_with(|| {
                        let start = bytes.len();
                        bytes.extend_from_slice(more);
                        bytes.extend_from_slice(value);
                        (start..start + more.len(), start + more.len()..bytes.len())
                    })
                    .clone();
                matches.push(FoundRow {
                    asker: *asker,
                    time,
                    more,
                    value,
                });
            }
            Step::Next
        })
        .and_then(|_| damaged.map_or(Ok(()), Err))
        .map_err(|e| self.named(e))?;
        // Stable: an asker's rows were found in the order of time.
        matches.sort_by_key(|found| found.asker);
        for FoundRow {
            asker,
            time,
            more,
            value,
        } in matches
        {
            f(
                asker,
                WindowedRow {
                    key: wanted[asker].key,
                    time,
                    more: &bytes[more],
                    value: &bytes[value],
                },
            );
        }
        Ok(())
    }
}

/// What is asked, key by key in the order of the rows.
fn groups(wanted: &[KeySpan<'_>], horizon: i64) -> Vec<KeyGroup> {
    let mut order: Vec<usize> = (0..wanted.len())
        .filter(|n| wanted[*n].from.max(horizon) <= wanted[*n].to)
        .collect();
    order.sort_by_key(|n| wanted[*n].key);
    order
        .chunk_by(|a, b| wanted[*a].key == wanted[*b].key)
        .map(|askers| {
            let from = askers
                .iter()
                .map(|n| wanted[*n].from)
                .min()
                .unwrap_or(i64::MIN)
                .max(horizon);
            let to = askers
                .iter()
                .map(|n| wanted[*n].to)
                .max()
                .unwrap_or(i64::MAX);
            let part = key_part(wanted[askers[0]].key);
            KeyGroup {
                bounds: key_bounds(&part, from, to),
                part,
                askers: askers.to_vec(),
            }
        })
        .collect()
}
