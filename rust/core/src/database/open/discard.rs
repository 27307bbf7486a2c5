//! Discards stores that may hold a part of a record's writes after an unclean stop.

use super::opening::Opening;
use super::store_entries::store_families;
use crate::database::options::ProcessingGuarantee;
use crate::database::rows::open_marker::OpenMarker;
use crate::database::rows::{keys, offset_rows};
use crate::error::Result;
use crate::store::{StoreKind, StoreSpec};
use crate::table::{FamilyKind, FamilySpec};
use crate::transaction::Batch;

impl Opening {
    /// Returns the stores whose data this open discards: under exactly-once, those without
    /// transactions that the marker names (`open_marker.rs`).
    pub(super) fn to_discard<'a>(
        &self,
        found: Option<&OpenMarker>,
        stores: &'a [StoreSpec],
    ) -> Result<Vec<&'a StoreSpec>> {
        match (found, self.options.guarantee) {
            (Some(found), ProcessingGuarantee::ExactlyOnce) => {
                found.to_discard(stores, self.rocks.path())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Adds rows to `batch` that mark the offsets of these stores as lost.
    pub(super) fn push_discarded(&self, discarded: &[&StoreSpec], batch: &mut Batch) -> Result<()> {
        for spec in discarded {
            offset_rows::push_lost(&self.snapshot, self.families.offsets, &spec.name, batch)?;
        }
        Ok(())
    }

    /// Deletes the rows of these stores, then their stream times. The rows that mark their offsets
    /// as lost must be in files before this call. Otherwise a crash could leave an empty store with
    /// valid offsets, and an open under at-least-once would accept it.
    pub(super) fn clear(&self, discarded: &[&StoreSpec]) -> Result<()> {
        for spec in discarded {
            log::warn!(
                "store {}: discarded, since it is written without transactions and its database \
                 was not closed, or was closed with writes after the last commit; restore it from \
                 its changelog [path: {}]",
                spec.name,
                self.rocks.path().display()
            );
            for family in store_families(spec) {
                self.rocks.clear(self.rocks.family(&family)?)?;
            }
            // A timestamped store also reads the rows of a plain store of its name.
            if spec.kind == StoreKind::TimestampedKeyValue
                && let Ok(plain) = self
                    .rocks
                    .family(&FamilySpec::new(FamilyKind::KeyValue, &spec.name))
            {
                self.rocks.clear(plain)?;
            }
        }
        if discarded.is_empty() {
            return Ok(());
        }
        // Rows without their stream time would be read although they have expired.
        let mut batch = Batch::with_capacity(0);
        for spec in discarded {
            for key in [keys::stream_time_key, keys::first_retained_key] {
                batch.push(self.families.metadata.id, &key(&spec.name), None);
            }
        }
        self.rocks.write(&mut batch)
    }
}
