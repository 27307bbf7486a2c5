//! Scans the rows of one key by time, or the rows of many keys by (time, key).

use super::by_time::RowsByTime;
use super::layout;
use super::row::WindowedRow;
use super::rows::WindowedRows;
use super::selection::Selection;
use crate::error::Result;
use crate::metrics::OpenIterator;
use crate::store::key_part::key_part;
use crate::table::{Bounds, TIME_BYTES};
use crate::transaction::{Scan, Step, Transaction};

/// An open scan over rows as they were when it was opened.
pub(in crate::store) struct RowScan {
    source: RowSource,
    most: Option<[u8; TIME_BYTES]>,
    rows: WindowedRows,
    _open: OpenIterator,
}

enum RowSource {
    Nothing,
    /// The rows of one key.
    Key {
        scan: Box<Scan>,
        key: Vec<u8>,
        part_len: usize,
    },
    Times(Box<RowsByTime>),
}

impl WindowedRows {
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
            _ if from > wanted.to || !keys_are_in_order => RowSource::Nothing,
            (Some(key), Some(to)) if key == to => {
                let part = key_part(key);
                let bounds = layout::key_bounds(&part, from, wanted.to);
                let scan = tx
                    .scan(self.inner.windowed, bounds, wanted.reverse)
                    .map_err(|e| self.named(e).key(key))?;
                RowSource::Key {
                    scan: Box::new(scan),
                    key: key.to_vec(),
                    part_len: part.len(),
                }
            }
            _ => {
                let bounds = Bounds {
                    lower: Some(layout::ordered(from).to_vec()),
                    upper: layout::after(wanted.to),
                    within_key: false,
                };
                let scan = tx
                    .scan(self.inner.times, bounds, wanted.reverse)
                    .map_err(|e| self.named(e))?;
                RowSource::Times(Box::new(RowsByTime::new(
                    scan,
                    tx.reader(),
                    self.inner.windowed,
                    &wanted,
                )))
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

impl RowScan {
    /// Calls `visit` with each row until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan, which can then be resumed.
    pub(in crate::store) fn for_each(
        &mut self,
        visit: &mut dyn FnMut(WindowedRow<'_>) -> bool,
    ) -> Result<bool> {
        let Self {
            source, most, rows, ..
        } = self;
        let shown = |more: &[u8]| most.as_ref().is_none_or(|most| more <= most.as_slice());
        match source {
            RowSource::Nothing => Ok(false),
            RowSource::Key {
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
                        || visit(WindowedRow {
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
            RowSource::Times(by_time) => by_time.for_each(&shown, visit),
        }
        .map_err(|e| rows.named(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::windowed::KeySpan;
    use crate::{Database, DatabaseOptions, ErrorKind, StoreKind, StoreSpec};

    /// A read fails at a row key that Holdfast never writes, and does not skip it.
    #[test]
    fn malformed_row_fails_reads() -> Result<()> {
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
            &[KeySpan {
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
