//! The `open` marker: what an unclean stop would leave in doubt (KIP-892, KIP-1035).
//!
//! Stores that take part in transactions stand at some commit after any stop, so a database of such
//! stores under exactly-once has no marker. A store that is written straight through may hold half
//! of a record's writes, and a database under at-least-once may stand anywhere. The marker says so
//! while such a database is open; it never goes through the transaction, and a clean close removes
//! it. A store that an unclean stop left in doubt stays in it through all opens without that store,
//! and their closes, until one has it: under exactly-once that one discards the store or refuses
//! it, under at-least-once it takes the store as it is.
//!
//! ```text
//! open → the processing guarantee, then one line for each store without transactions
//! ```

use super::{ProcessingGuarantee, metadata};
use crate::error::{Error, ErrorKind, Result};
use crate::rocks::{Family, RocksDb};
use crate::store::StoreSpec;
use crate::transaction::Batch;
use std::path::Path;
use std::sync::Arc;

/// What a database that was not closed had open.
#[derive(PartialEq, Eq)]
pub(super) struct Marker {
    guarantee: String,
    stores: Vec<String>,
}

impl Marker {
    /// The marker of a database to be opened, with stores that are in doubt already; nothing if an
    /// unclean stop would do no harm.
    pub(super) fn of(
        specs: &[StoreSpec],
        guarantee: ProcessingGuarantee,
        in_doubt: &[String],
    ) -> Option<Self> {
        let direct = specs
            .iter()
            .filter(|spec| spec.persistent && !spec.transactional)
            .map(|spec| spec.name.clone());
        let stores: Vec<String> = direct.chain(in_doubt.iter().cloned()).collect();
        let harmless = stores.is_empty() && guarantee == ProcessingGuarantee::ExactlyOnce;
        (!harmless).then(|| Self {
            guarantee: guarantee.name().to_owned(),
            stores,
        })
    }

    pub(super) fn parse(stored: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stored);
        let mut lines = text.lines().map(str::to_owned);
        Self {
            guarantee: lines.next().unwrap_or_default(),
            stores: lines.collect(),
        }
    }

    /// The stores that stay in doubt, since they are not among `specs`.
    pub(super) fn into_others(self, specs: &[StoreSpec]) -> Vec<String> {
        self.stores
            .into_iter()
            .filter(|name| specs.iter().all(|spec| spec.name != *name))
            .collect()
    }

    /// The stores of `specs` whose data a database under exactly-once must throw away.
    ///
    /// # Errors
    /// `StateMismatch` where throwing away a store is not what the caller asks for.
    pub(super) fn to_discard<'a>(
        &self,
        specs: &'a [StoreSpec],
        path: &Path,
    ) -> Result<Vec<&'a StoreSpec>> {
        let corrupted = |message: String| Error::new(ErrorKind::StateMismatch, message).path(path);
        if self.guarantee == ProcessingGuarantee::AtLeastOnce.name() {
            return Err(corrupted(
                "the database was not closed when it was last open, under at-least-once, so its \
                 state may hold records twice; open it under at-least-once and close it, or delete \
                 the directory and restore from the changelog"
                    .to_owned(),
            ));
        }
        let mut discarded = Vec::new();
        for spec in specs.iter().filter(|spec| self.stores.contains(&spec.name)) {
            if spec.transactional {
                return Err(corrupted(
                    "the store was written without transactions when it was last open, and its \
                     database was not closed, so the store may hold half of a record's writes; \
                     open it once with transactional=False, which discards it, or delete the \
                     directory and restore from the changelog"
                        .to_owned(),
                )
                .store(&spec.name));
            }
            discarded.push(spec);
        }
        Ok(discarded)
    }
}

/// Writes the marker, or removes it if there is to be none; the caller flushes.
pub(super) fn put(marker: Option<&Marker>, rocks: &Arc<RocksDb>, metadata: Family) -> Result<()> {
    let lines = |marker: &Marker| {
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
        metadata::OPEN_KEY,
        value.as_ref().map(String::as_bytes),
    );
    rocks.write(&mut batch)
}
