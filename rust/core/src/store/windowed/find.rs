//! Runs many short scans in one pass over the table. Each has its own key and range of times.

use super::layout::{self, key_bounds};
use super::row::WindowedRow;
use super::rows::WindowedRows;
use crate::error::Result;
use crate::store::key_part::key_part;
use crate::table::{Bounds, TIME_BYTES};
use crate::transaction::{Step, Transaction};
use std::ops::Range;

/// How many bytes of found rows are held at once: if there are more, the requests are split.
const FOUND_BYTES: usize = 64 << 20;

/// The requested rows of a key.
#[derive(Clone, Copy)]
pub(in crate::store) struct KeySpan<'a> {
    pub(in crate::store) key: &'a [u8],
    /// First time, inclusive.
    pub(in crate::store) from: i64,
    /// Last time, inclusive.
    pub(in crate::store) to: i64,
    /// The greatest `more` of the row key (`layout.rs`), inclusive: for sessions, the latest start.
    pub(in crate::store) most: Option<[u8; TIME_BYTES]>,
}

/// The requests for one key: its rows are read once for all of them.
struct KeyGroup {
    part: Vec<u8>,
    bounds: Bounds,
    /// Positions of the requests.
    requests: Vec<usize>,
}

/// A row that was found for a request.
struct FoundRow {
    request: usize,
    time: i64,
    more: Range<usize>,
    value: Range<usize>,
}

impl WindowedRows {
    /// Finds the rows of many requests. Calls `f` with a request's position and a row, in order of
    /// position, then of time.
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
        let (mut at, mut is_too_much) = (0, false);
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
            if wanted.len() > 1 && bytes.len() + matches.len() * size_of::<FoundRow>() > FOUND_BYTES
            {
                is_too_much = true;
                return Step::Pause;
            }
            let mut place = None;
            for request in &group.requests {
                let asked = &wanted[*request];
                if time < asked.from
                    || time > asked.to
                    || asked.most.is_some_and(|most| more > most.as_slice())
                {
                    continue;
                }
                if wanted.len() == 1 {
                    // The rows of a single request arrive in time order, so they are not buffered.
                    f(
                        0,
                        WindowedRow {
                            key: asked.key,
                            time,
                            more,
                            value,
                        },
                    );
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
                    request: *request,
                    time,
                    more,
                    value,
                });
            }
            Step::Next
        })
        .and_then(|_| damaged.map_or(Ok(()), Err))
        .map_err(|e| self.named(e))?;
        if is_too_much {
            drop((bytes, matches));
            let (first, second) = wanted.split_at(wanted.len() / 2);
            self.find(tx, first, f)?;
            return self.find(tx, second, &mut |n, row| f(first.len() + n, row));
        }
        // The sort is stable, and the rows of a request were found in the order of time.
        matches.sort_by_key(|found| found.request);
        for FoundRow {
            request,
            time,
            more,
            value,
        } in matches
        {
            f(
                request,
                WindowedRow {
                    key: wanted[request].key,
                    time,
                    more: &bytes[more],
                    value: &bytes[value],
                },
            );
        }
        Ok(())
    }
}

/// Groups the requests by key, in the order of the rows.
fn groups(wanted: &[KeySpan<'_>], horizon: i64) -> Vec<KeyGroup> {
    let mut order: Vec<usize> = (0..wanted.len())
        .filter(|n| wanted[*n].from.max(horizon) <= wanted[*n].to)
        .collect();
    order.sort_by_key(|n| wanted[*n].key);
    order
        .chunk_by(|a, b| wanted[*a].key == wanted[*b].key)
        .map(|requests| {
            let from = requests
                .iter()
                .map(|n| wanted[*n].from)
                .min()
                .unwrap_or(i64::MIN)
                .max(horizon);
            let to = requests
                .iter()
                .map(|n| wanted[*n].to)
                .max()
                .unwrap_or(i64::MAX);
            let part = key_part(wanted[requests[0]].key);
            KeyGroup {
                bounds: key_bounds(&part, from, to),
                part,
                requests: requests.to_vec(),
            }
        })
        .collect()
}
