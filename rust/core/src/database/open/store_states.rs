//! The states of the stores at an open: stream times, sequence numbers, and which stores are lost.

use super::opening::Opening;
use crate::database::rows::{keys, offset_rows, store_descriptor};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Position;
use crate::store::StoreSpec;
use crate::transaction::{Batch, StoreState};

/// The states of the stores, in their order.
pub(super) struct StoreStates {
    pub(super) states: Vec<StoreState>,
    /// Whether a store has a shorter retention than at the last open.
    pub(super) shorter_retention: bool,
}

impl Opening {
    /// Reads the states of the stores and checks them against their stored descriptors. Adds the
    /// changes that this open makes to the batch.
    pub(super) fn store_states(
        &self,
        stores: &[StoreSpec],
        discarded: &[&StoreSpec],
        position: &Position,
        batch: &mut Batch,
    ) -> Result<StoreStates> {
        let mut found = StoreStates {
            states: Vec::with_capacity(stores.len()),
            shorter_retention: false,
        };
        for spec in stores {
            let stored = self.read(&keys::store_key(&spec.name))?;
            let is_discarded = discarded.contains(&spec);
            let mut is_lost = is_discarded || !spec.persistent;
            if stored.is_none() {
                let has_offsets = offset_rows::push_begun(
                    &self.snapshot,
                    self.families.offsets,
                    &spec.name,
                    batch,
                )?;
                is_lost |= !has_offsets;
            }
            if spec.persistent && self.read(&keys::memory_key(&spec.name))?.is_some() {
                // Its offsets are those of rows that were never in files.
                offset_rows::push_lost(&self.snapshot, self.families.offsets, &spec.name, batch)?;
                batch.push(
                    self.families.metadata.id,
                    &keys::memory_key(&spec.name),
                    None,
                );
                is_lost = true;
            }
            if is_lost && !position.is_empty() {
                batch.push(
                    self.families.metadata.id,
                    &keys::lost_key(&spec.name),
                    Some(&[]),
                );
            }
            let before = stored.as_deref().and_then(store_descriptor::retention);
            found.shorter_retention |= before.is_some_and(|before| before > spec.kind.retention());
            found.states.push(self.store_state(
                spec,
                stored.as_deref(),
                before,
                is_discarded,
                batch,
            )?);
        }
        Ok(found)
    }

    /// The state of a store, whose stored descriptor and retention are `stored` and `before`; adds
    /// its new descriptor to the batch.
    fn store_state(
        &self,
        spec: &StoreSpec,
        stored: Option<&[u8]>,
        before: Option<i64>,
        is_empty: bool,
        batch: &mut Batch,
    ) -> Result<StoreState> {
        if !spec.persistent {
            if stored.is_some() {
                let words = "the store was made in files and is now asked for in memory; open it \
                             with persistent=True or give the new store another name";
                return Err(Error::new(ErrorKind::InvalidValue, words)
                    .store(&spec.name)
                    .path(self.rocks.path()));
            }
            // Its rows were lost with the last close.
            offset_rows::push_lost(&self.snapshot, self.families.offsets, &spec.name, batch)?;
            batch.push(
                self.families.metadata.id,
                &keys::memory_key(&spec.name),
                Some(&[]),
            );
            return Ok(StoreState::default());
        }
        if let Some(stored) = stored {
            store_descriptor::check_descriptor(spec, stored)
                .map_err(|e| e.path(self.rocks.path()))?;
        }
        batch.push(
            self.families.metadata.id,
            &keys::store_key(&spec.name),
            Some(store_descriptor::descriptor(spec).as_bytes()),
        );
        let stream_time = self
            .read(&keys::stream_time_key(&spec.name))?
            .filter(|_| !is_empty);
        let stream_time = stream_time
            .map(|time| keys::parse_time(&time))
            .transpose()?;
        let first_retained = self
            .read(&keys::first_retained_key(&spec.name))?
            .filter(|_| !is_empty);
        let mut first_retained = first_retained
            .map(|time| keys::parse_time(&time))
            .transpose()?;
        // Some of the expired rows may still exist, so a longer retention must not show them.
        let shorter = before.filter(|before| *before < spec.kind.retention());
        if let (Some(before), Some(time)) = (shorter, stream_time) {
            if self.options.refuse_hidden_rows {
                let words = format!(
                    "the store's last open had a retention of {before} microseconds, so rows \
                     within the new one of {} microseconds may have been removed; restore the \
                     store from its changelog",
                    spec.kind.retention()
                );
                return Err(Error::new(ErrorKind::InvalidValue, words)
                    .store(&spec.name)
                    .path(self.rocks.path()));
            }
            let raised = first_retained
                .unwrap_or(i64::MIN)
                .max(spec.kind.first_retained(time, before));
            batch.push(
                self.families.metadata.id,
                &keys::first_retained_key(&spec.name),
                Some(&raised.to_be_bytes()),
            );
            first_retained = Some(raised);
        }
        let sequence = self.read(&keys::sequence_key(&spec.name))?;
        Ok(StoreState {
            stream_time,
            first_retained,
            sequence: sequence
                .map(|number| keys::parse_sequence(&number))
                .transpose()?
                .unwrap_or(0),
            changed: false,
        })
    }
}
