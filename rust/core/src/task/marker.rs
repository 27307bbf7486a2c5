//! The `open` marker: what an unclean stop would leave in doubt (KIP-892, KIP-1035).
//!
//! Stores that take part in transactions stand at some commit after any stop, so a task of such stores under exactly-once has
//! no marker. A store that is written straight through may hold half of a record's writes, and a task under at-least-once may
//! stand anywhere. The marker says so while such a task is open; it never goes through the transaction, and a clean close
//! removes it.
//!
//! ```text
//! open → the processing guarantee, then one line for each store without transactions
//! ```

use super::{ProcessingGuarantee, metadata};
use crate::error::{Error, ErrorKind, Result};
use crate::rocks::{Database, Family};
use crate::store::StoreSpec;
use crate::transaction::Batch;
use std::path::Path;
use std::sync::Arc;

/// What a task that was not closed had open.
pub(super) struct Marker {
    guarantee: String,
    stores: Vec<String>,
}

impl Marker {
    /// The marker of a task to be opened; nothing if an unclean stop would do no harm.
    pub(super) fn of(specs: &[StoreSpec], guarantee: ProcessingGuarantee) -> Option<Self> {
        let stores: Vec<String> =
            specs.iter().filter(|spec| spec.persistent && !spec.transactional).map(|spec| spec.name.clone()).collect();
        let harmless = stores.is_empty() && guarantee == ProcessingGuarantee::ExactlyOnce;
        (!harmless).then(|| Self { guarantee: guarantee.name().to_owned(), stores })
    }

    pub(super) fn parse(stored: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stored);
        let mut lines = text.lines().map(str::to_owned);
        Self { guarantee: lines.next().unwrap_or_default(), stores: lines.collect() }
    }

    /// The stores of `specs` whose data a task under exactly-once must throw away.
    ///
    /// # Errors
    /// `TaskCorrupted` where throwing away a store is not what the caller asks for.
    pub(super) fn to_discard<'a>(&self, specs: &'a [StoreSpec], path: &Path) -> Result<Vec<&'a StoreSpec>> {
        let corrupted = |message: String| Error::new(ErrorKind::TaskCorrupted, message).path(path);
        if self.guarantee == ProcessingGuarantee::AtLeastOnce.name() {
            return Err(corrupted(
                "the task was not closed when it was last open, under at-least-once, so its state may hold records twice; open it \
                 under at-least-once and close it, or delete the directory and restore from the changelog"
                    .to_owned(),
            ));
        }
        let mut discarded = Vec::new();
        for spec in specs.iter().filter(|spec| self.stores.contains(&spec.name)) {
            if spec.transactional {
                return Err(corrupted(
                    "the store was written without transactions when the task was last open, and the task was not closed, so the store \
                     may hold half of a record's writes; open it once with transactional=False, which discards it, or delete the directory \
                     and restore from the changelog"
                        .to_owned(),
                )
                .store(&spec.name));
            }
            discarded.push(spec);
        }
        Ok(discarded)
    }

    /// Writes the marker to disk, at once.
    pub(super) fn write(&self, database: &Arc<Database>, metadata: Family) -> Result<()> {
        let mut batch = Batch::with_capacity(64);
        let value = std::iter::once(&self.guarantee).chain(&self.stores).cloned().collect::<Vec<_>>().join("\n");
        batch.push(metadata.id, metadata::OPEN_KEY, Some(value.as_bytes()));
        database.write(&mut batch)?;
        database.flush(true)
    }
}

/// Removes the marker; the caller flushes.
pub(super) fn remove(database: &Arc<Database>, metadata: Family) -> Result<()> {
    let mut batch = Batch::with_capacity(32);
    batch.push(metadata.id, metadata::OPEN_KEY, None);
    database.write(&mut batch)
}
