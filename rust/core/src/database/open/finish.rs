//! The second part of an open: the stores and the database.

use super::opening::{Opening, UNCOMMITTED};
use super::store_entries::{BuiltStores, build_stores};
use super::store_states::StoreStates;
use crate::database::database::{Database, Markers, TransactionState};
use crate::database::expiry::{Reclaimer, Views};
use crate::database::metrics::DatabaseCounts;
use crate::database::rows::keys::{self, DURABILITY_KEY, FORMAT, FORMAT_KEY};
use crate::database::rows::open_marker::{self, OpenMarker};
use crate::database::stores::{StoreCatalog, StoreEntry};
use crate::database::transactions::committed::Committed;
use crate::database::transactions::uncommitted::Uncommitted;
use crate::database::transactions::writer::Writer;
use crate::error::Result;
use crate::rocks::RocksOptions;
use crate::store::StoreSpec;
use crate::sync::{Mutex, RwLock};
use crate::table::{FamilyKind, FamilySpec};
use crate::transaction::{Base, Batch, SpillTarget, Spiller, Table};
use std::sync::Arc;

impl Opening {
    /// Checks the stores against their stored descriptors and builds the database.
    pub(super) fn finish(self, stores: &[StoreSpec], in_memory: bool) -> Result<Arc<Database>> {
        let metadata = self.families.metadata;
        let mut batch = Batch::with_capacity(256);
        batch.push(metadata.id, FORMAT_KEY, Some(&FORMAT.to_be_bytes()));
        batch.push(
            metadata.id,
            DURABILITY_KEY,
            Some(self.options.durability.name().as_bytes()),
        );
        let found = self
            .read(keys::OPEN_KEY)?
            .map(|stored| OpenMarker::parse(&stored));
        let discarded = self.to_discard(found.as_ref(), stores)?;
        self.push_discarded(&discarded, &mut batch)?;
        let position = self.position()?;
        let StoreStates {
            states,
            shorter_retention,
        } = self.store_states(stores, &discarded, &position, &mut batch)?;
        self.push_serdes(stores, &mut batch)?;
        self.rocks.write(&mut batch)?;
        if shorter_retention || !discarded.is_empty() {
            // Compactions now drop rows that a crash does not restore, so a crash must not restore
            // the former descriptor either. The same holds for the offsets of discarded stores.
            self.rocks.flush(true)?;
        }
        // Cleared after the checks above: they may refuse another store, and nothing restores
        // deleted rows.
        self.clear(&discarded)?;
        let absent = self.absent(stores)?;
        let BuiltStores {
            tables,
            entries,
            memory,
        } = build_stores(
            &self.rocks,
            stores,
            &states,
            &self.horizons,
            self.options.metrics_level,
        )?;
        let spiller = if in_memory {
            None
        } else {
            self.spiller(&entries, &tables)
        };
        let reclaimer = Reclaimer::new(&self.rocks, &entries)?;
        // As late as possible: if an open fails after it has written the marker, the next open
        // discards stores without need.
        let markers = self.mark_open(found, stores)?;
        let committed = Committed {
            base: Base::new(self.rocks.snapshot()?, memory, position),
            states,
        };
        let db = Database {
            reclaimer,
            views: Mutex::new(Views::new(&committed)),
            counts: DatabaseCounts::new(&self.rocks),
            rocks: self.rocks,
            families: self.families,
            stores: StoreCatalog {
                tables,
                entries,
                absent,
            },
            transactions: TransactionState {
                committed: RwLock::new(committed),
                writer: Mutex::new(Writer::default()),
                uncommitted: Uncommitted::default(),
            },
            options: self.options,
            spiller,
            markers,
        };
        db.raise_horizons(&db.views.lock());
        Ok(Arc::new(db))
    }

    /// Writes the `open` marker. Stores that an earlier open left suspect stay in it, except those
    /// that this open has discarded or accepted.
    fn mark_open(&self, found: Option<OpenMarker>, stores: &[StoreSpec]) -> Result<Markers> {
        let suspect = found
            .map(|found| found.into_others(stores))
            .unwrap_or_default();
        let open = OpenMarker::of(stores, self.options.guarantee, &suspect);
        open_marker::put(open.as_ref(), &self.rocks, self.families.metadata)?;
        if open.is_some() {
            self.rocks.flush(true)?;
        }
        Ok(Markers { open, suspect })
    }

    /// The spiller of the database's transactions; `None` if they never spill.
    fn spiller(&self, stores: &[StoreEntry], tables: &[Table]) -> Option<Arc<Spiller>> {
        let limit = self.options.spill_at()?;
        let mut targets = vec![None; tables.len()];
        for entry in stores
            .iter()
            .filter(|entry| entry.spec.persistent && entry.spec.transactional)
        {
            let family = |table: &Table| FamilySpec::new(table.kind, &entry.spec.name);
            let tables_of_store = entry.store.tables();
            for table in &tables_of_store {
                let latest = match (table.kind, tables_of_store.as_slice()) {
                    (FamilyKind::Versions, [_, latest]) => Some(family(latest)),
                    _ => None,
                };
                targets[table.number] = Some(SpillTarget {
                    family: family(table),
                    latest,
                });
            }
        }
        let options = RocksOptions {
            environment: self.options.environment.clone(),
            ..RocksOptions::default()
        };
        Some(Arc::new(Spiller::new(
            self.rocks.path().join(UNCOMMITTED),
            options,
            limit,
            targets,
        )))
    }
}
