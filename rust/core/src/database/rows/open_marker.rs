//! The `open` row: which stores an unclean stop would leave suspect (KIP-892, KIP-1035).
//!
//! After any stop, stores with transactions are at some commit, so a database of such stores under
//! exactly-once has no marker. A store without transactions may hold a part of a record's writes,
//! and under at-least-once the state may be at any point. In both cases the marker records this
//! while the database is open. It is written outside the transaction, and a clean close removes it.
//! If a store without transactions has writes after its committed offsets, a close under
//! exactly-once is not clean.
//!
//! A store that an unclean stop left suspect stays in the marker through all opens without that
//! store, and their closes. The next open with the store settles it: under exactly-once the open
//! discards the store or fails, under at-least-once it accepts the store as it is.
//!
//! ```text
//! open → the processing guarantee, then one line for each store: suspect ones and, while the
//!        database is open, those in files without transactions
//! ```

use super::keys;
use crate::database::options::ProcessingGuarantee;
use crate::error::{Error, ErrorKind, Result};
use crate::rocks::{Family, RocksDb};
use crate::store::StoreSpec;
use crate::transaction::Batch;
use std::path::Path;
use std::sync::Arc;

/// The guarantee and the suspect stores of a database that is open, or was not closed cleanly.
#[derive(PartialEq, Eq)]
pub(in crate::database) struct OpenMarker {
    guarantee: String,
    stores: Vec<String>,
}

impl OpenMarker {
    /// The marker with the stores of `specs` that are in files without transactions, and with those
    /// that are suspect already; `None` if an unclean stop would do no harm.
    pub(in crate::database) fn of(
        specs: &[StoreSpec],
        guarantee: ProcessingGuarantee,
        suspect: &[String],
    ) -> Option<Self> {
        let direct = specs
            .iter()
            .filter(|spec| spec.persistent && !spec.transactional)
            .map(|spec| spec.name.clone());
        let stores: Vec<String> = direct.chain(suspect.iter().cloned()).collect();
        let harmless = stores.is_empty() && guarantee == ProcessingGuarantee::ExactlyOnce;
        (!harmless).then(|| Self {
            guarantee: guarantee.name().to_owned(),
            stores,
        })
    }

    pub(in crate::database) fn parse(stored: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stored);
        let mut lines = text.lines().map(str::to_owned);
        Self {
            guarantee: lines.next().unwrap_or_default(),
            stores: lines.collect(),
        }
    }

    /// The stores that stay suspect, since they are not among `specs`.
    pub(in crate::database) fn into_others(self, specs: &[StoreSpec]) -> Vec<String> {
        self.stores
            .into_iter()
            .filter(|name| specs.iter().all(|spec| spec.name != *name))
            .collect()
    }

    /// The stores of `specs` whose data a database under exactly-once must discard.
    ///
    /// # Errors
    /// `StateMismatch` if the last open was under at-least-once, and for a store that is now opened
    /// with transactions, which must not be discarded.
    pub(in crate::database) fn to_discard<'a>(
        &self,
        specs: &'a [StoreSpec],
        path: &Path,
    ) -> Result<Vec<&'a StoreSpec>> {
        let mismatch = |message: String| Error::new(ErrorKind::StateMismatch, message).path(path);
        if self.guarantee == ProcessingGuarantee::AtLeastOnce.name() {
            return Err(mismatch(
                "the database was last opened under at-least-once and was not closed, so its \
                 state may hold records twice; open it under at-least-once and close it, or delete \
                 the directory and restore from the changelog"
                    .to_owned(),
            ));
        }
        let mut discarded = Vec::new();
        for spec in specs.iter().filter(|spec| self.stores.contains(&spec.name)) {
            if spec.transactional {
                return Err(mismatch(
                    "the store was written without transactions when it was last open, and its \
                     database was not closed, or was closed with writes after the last commit, so \
                     the store may hold only a part of a record's writes; open it once with \
                     transactional=False, which discards it, or delete the directory and restore \
                     from the changelog"
                        .to_owned(),
                )
                .store(&spec.name));
            }
            discarded.push(spec);
        }
        Ok(discarded)
    }
}

/// Writes `marker`; if it is `None`, deletes the stored row. The caller flushes.
pub(in crate::database) fn put(
    marker: Option<&OpenMarker>,
    rocks: &Arc<RocksDb>,
    metadata: Family,
) -> Result<()> {
    let lines = |marker: &OpenMarker| {
        std::iter::once(&marker.guarantee)
            .chain(&marker.stores)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    };
    let value = marker.map(lines);
    let mut batch = Batch::with_capacity(64);
    batch.push(
        metadata.id,
        keys::OPEN_KEY,
        value.as_ref().map(String::as_bytes),
    );
    rocks.write(&mut batch)
}
