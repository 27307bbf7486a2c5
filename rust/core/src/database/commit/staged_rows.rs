//! Moves staged rows into the write batch of a commit, or into tables in memory.

use crate::database::database::Database;
use crate::database::rows::keys;
use crate::database::stores::{Store, StoreEntry};
use crate::expiry::ExpiryFilter;
use crate::store::windowed;
use crate::table::TIME_BYTES;
use crate::transaction::{Batch, LatestRows, MemoryTable, Place, Table, Transaction};

impl Database {
    /// Moves all staged rows of some stores. Rows of tables in files go into the batch, by family
    /// and sorted by key: the memtable's insertion hint needs that order. Rows of tables in memory
    /// go into these tables. Returns whether there were such rows.
    pub(super) fn push_rows(
        &self,
        tx: &mut Transaction,
        stores: impl Fn(&StoreEntry) -> bool,
        batch: &mut Batch,
        memory: &mut [MemoryTable],
    ) -> bool {
        let mut in_memory = false;
        for entry in self.stores.entries.iter().filter(|entry| stores(entry)) {
            if let Store::Versioned(store, horizon) = &entry.store {
                let (versions, latest) = store.tables();
                match (versions.place, latest.place) {
                    (Place::Memory(of_versions), Place::Memory(of_latest)) => {
                        in_memory |= tx.is_staged(versions);
                        let mut filter = ExpiryFilter::new(horizon.get());
                        tx.move_latest_to_memory(versions, latest, &mut memory[of_latest]);
                        tx.move_to_memory(versions, &mut memory[of_versions], &mut |row| {
                            filter.expired(row)
                        });
                    }
                    _ => push_versions(tx, versions, latest, batch),
                }
                continue;
            }
            for table in entry.store.tables() {
                match table.place {
                    Place::Files(_) => {
                        tx.drain_cleared(table, batch);
                        tx.drain(table, |_, encoded| {
                            Transaction::push_encoded(batch, encoded)
                        });
                    }
                    Place::Memory(number) => {
                        in_memory |= tx.is_staged(table);
                        let horizon = entry.store.expiry().map(|expiry| expiry.horizon.get());
                        let mut expired = |row: &[u8]| {
                            horizon
                                .is_some_and(|horizon| windowed::expired(table.kind, row, horizon))
                        };
                        tx.move_to_memory(table, &mut memory[number], &mut expired);
                    }
                }
            }
        }
        in_memory
    }

    /// About how many bytes of a batch the staged rows need. Each staged version may also make a
    /// row of `latest`.
    pub(super) fn staged_bytes(&self, tx: &Transaction) -> usize {
        let stores = self.stores.entries.iter();
        let latest = stores.filter_map(|entry| match &entry.store {
            Store::Versioned(store, _) => Some(store.uncommitted_bytes(tx)),
            _ => None,
        });
        tx.uncommitted_bytes() + latest.sum::<usize>()
    }

    /// Adds the stream times and sequence numbers of some stores, where they changed.
    pub(super) fn push_stream_times(
        &self,
        tx: &Transaction,
        stores: impl Fn(&StoreEntry) -> bool,
        batch: &mut Batch,
    ) {
        let states = self.stores.entries.iter().zip(&tx.stores);
        for (entry, state) in states.filter(|(entry, _)| entry.spec.persistent && stores(entry)) {
            if let (true, Some(time)) = (state.changed, state.stream_time) {
                batch.push(
                    self.families.metadata.id,
                    &keys::stream_time_key(&entry.spec.name),
                    Some(&time.to_be_bytes()),
                );
            }
            if state.changed && state.sequence > 0 {
                batch.push(
                    self.families.metadata.id,
                    &keys::sequence_key(&entry.spec.name),
                    Some(&state.sequence.to_be_bytes()),
                );
            }
        }
    }
}

/// Adds the rows of a versioned store in files, then the `latest` rows that they make. If the
/// writes alternated between the two families, each would evict the other's nodes from the
/// processor's cache.
fn push_versions(tx: &mut Transaction, versions: Table, latest: Table, batch: &mut Batch) {
    let (mut newest, mut rows) = (Vec::new(), LatestRows::default());
    tx.drain(versions, |version, encoded| {
        if rows.of(version).is_some() {
            newest.push(batch.len());
        }
        Transaction::push_encoded(batch, encoded);
    });
    // The rows are read from the batch, where they are in order. In the arena they are scattered.
    for start in newest {
        batch.push_from(latest.family_id(), start, TIME_BYTES);
    }
}
