//! Scans: the versions of a key or of a range of keys, and the whole table as of a moment.

use super::expired_read::ExpiredRead;
use super::layout;
use super::scan::as_of::AsOfScan;
use super::scan::backward::ValiditySpan;
use super::scan::between::BetweenScan;
use super::scan::latest::LatestScan;
use super::store::VersionedStore;
use super::version::{Version, VersionRow};
use crate::error::Result;
use crate::metrics::Operation;
use crate::store::key_range::successor;
use crate::table::Bounds;
use crate::time::Timestamp;
use crate::transaction::Transaction;

/// A scan over versions, as they were when it was opened.
pub struct VersionScan {
    rows: VersionRows,
}

enum VersionRows {
    /// Every version whose validity overlaps a span.
    Between(BetweenScan),
    /// The version of each key that was valid at a moment.
    AsOf(AsOfScan),
    /// The newest version of each key.
    Latest(LatestScan),
}

/// The bounds of the rows of keys in `[from, to]`, both inclusive.
fn bounds(from: Option<&[u8]>, to: Option<&[u8]>) -> Bounds {
    let part = |key: &[u8]| {
        let mut part = Vec::with_capacity(key.len() + 2);
        layout::push_key_part(key, &mut part);
        part
    };
    let lower = from.map(part);
    let upper = to.and_then(|to| successor(&part(to)));
    let upper = match (&lower, upper) {
        (Some(lower), Some(upper)) if upper < *lower => Some(lower.clone()),
        (_, upper) => upper,
    };
    Bounds {
        lower,
        upper,
        within_key: false,
    }
}

impl VersionedStore {
    /// Scans the versions of one key whose validity overlaps `[from, to]`, newest first or
    /// (`ascending`) oldest first.
    ///
    /// Tombstones and versions that ended before the history retention are left out. If `to` itself
    /// is before the retention, only the newest version can be found. The scan is one expired read
    /// if it leaves out a key whose newest version began after `to`.
    pub fn versions(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        from: Timestamp,
        to: Timestamp,
        ascending: bool,
    ) -> Result<VersionScan> {
        let _call = self.inner.counts.call(Operation::Versions);
        self.versions_between(tx, Some(key), Some(key), from, to, ascending)
    }

    /// Scans the versions of all keys in `[key_from, key_to]` (`None` open), ordered by (key,
    /// timestamp).
    pub fn versions_range(
        &self,
        tx: &mut Transaction,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<VersionScan> {
        let _call = self.inner.counts.call(Operation::VersionsRange);
        self.versions_between(tx, key_from, key_to, from, to, true)
    }

    fn versions_between(
        &self,
        tx: &mut Transaction,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        from: Timestamp,
        to: Timestamp,
        ascending: bool,
    ) -> Result<VersionScan> {
        let horizon = self.horizon(tx);
        let scan = tx
            .scan(self.inner.versions, bounds(key_from, key_to), false)
            .map_err(|e| e.store(self.name()))?
            .counted(self.inner.counts.iterator());
        let span = ValiditySpan {
            from: from.0,
            to: to.0,
            horizon,
        };
        let expired = (to.0 < horizon).then(|| ExpiredRead::new(self, tx, to.0));
        Ok(VersionScan {
            rows: VersionRows::Between(BetweenScan::new(scan, span, ascending, expired)),
        })
    }

    /// Scans the whole table as it was at a moment (`None`: as it is now), in key order. A moment
    /// before the history retention shows only keys whose newest version had begun by then; the
    /// scan is one expired read if it leaves another key out.
    pub fn scan(&self, tx: &mut Transaction, as_of: Option<Timestamp>) -> Result<VersionScan> {
        let _call = self.inner.counts.call(Operation::Scan);
        let horizon = self.horizon(tx);
        let at = as_of.unwrap_or(Timestamp::MAX).0;
        // No version begins after the stream time, so the newest versions are the valid ones.
        let latest_only = at < horizon || self.stream_time(tx).is_none_or(|time| time.0 <= at);
        let open = if latest_only {
            tx.scan_latest(self.inner.versions, self.inner.latest)
        } else {
            tx.scan(self.inner.versions, Bounds::default(), false)
        };
        let scan = open
            .map_err(|e| e.store(self.name()))?
            .counted(self.inner.counts.iterator());
        let rows = if latest_only {
            let expired = (at < horizon).then(|| ExpiredRead::new(self, tx, at));
            VersionRows::Latest(LatestScan::new(scan, at, expired))
        } else {
            VersionRows::AsOf(AsOfScan::new(scan, at))
        };
        Ok(VersionScan { rows })
    }

    /// Calls `f` with the versions that a transaction has staged, by (key, newest first).
    ///
    /// # Errors
    /// Those of `f`.
    pub fn for_each_change(
        &self,
        tx: &mut Transaction,
        f: &mut dyn FnMut(VersionRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut key = Vec::new();
        tx.for_each_staged(self.inner.versions, |row_key, row| {
            let (part, begin) = layout::split(row_key);
            key.clear();
            layout::push_key(part, &mut key);
            f(VersionRow {
                key: &key,
                value: row.and_then(layout::value),
                timestamp: Timestamp(begin),
            })
        })
    }
}

impl VersionScan {
    /// Calls `visit` with each version until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan, which can then be resumed.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool) -> Result<bool> {
        match &mut self.rows {
            VersionRows::Between(scan) => scan.for_each(visit),
            VersionRows::AsOf(scan) => scan.for_each(visit),
            VersionRows::Latest(scan) => scan.for_each(visit),
        }
    }
}
