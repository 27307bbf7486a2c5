//! Discards stores that an unclean stop left suspect.

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
    /// Discards the stores that an unclean stop left suspect; returns their names.
    pub(super) fn discard(
        &self,
        found: Option<&OpenMarker>,
        stores: &[StoreSpec],
        batch: &mut Batch,
    ) -> Result<Vec<String>> {
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        if self.options.guarantee == ProcessingGuarantee::AtLeastOnce {
            return Ok(Vec::new());
        }
        let path = self.rocks.path();
        let discarded = found.to_discard(stores, path)?;
        for spec in &discarded {
            log::warn!(
                "store {}: discarded, since it is written without transactions and its database \
                 was not closed; restore it from its changelog [path: {}]",
                spec.name,
                path.display()
            );
            for family in store_families(spec) {
                self.rocks.clear(self.rocks.family(&family)?)?;
            }
            // The store would also read the rows of a plain store of this name.
            if spec.kind == StoreKind::TimestampedKeyValue
                && let Ok(plain) = self
                    .rocks
                    .family(&FamilySpec::new(FamilyKind::KeyValue, &spec.name))
            {
                self.rocks.clear(plain)?;
            }
            batch.push(
                self.families.metadata.id,
                &keys::stream_time_key(&spec.name),
                None,
            );
            batch.push(
                self.families.metadata.id,
                &keys::first_retained_key(&spec.name),
                None,
            );
            offset_rows::push_lost(&self.snapshot, self.families.offsets, &spec.name, batch)?;
        }
        Ok(discarded
            .into_iter()
            .map(|spec| spec.name.clone())
            .collect())
    }
}
