//! Builds the stores of a database over their column families or tables in memory.

use crate::database::stores::{Store, StoreEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::Horizon;
use crate::metrics::{MetricsLevel, StoreCounts};
use crate::rocks::{Cursor, Family, RocksDb};
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::VersionedStore;
use crate::store::window::WindowStore;
use crate::store::windowed::WindowedRows;
use crate::store::{StoreKind, StoreSpec};
use crate::table::{Bounds, FamilyKind, FamilySpec};
use crate::transaction::{MemoryTable, Place, StoreState, Table};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The families of a store; the first holds its rows.
pub(super) fn store_families(spec: &StoreSpec) -> Vec<FamilySpec> {
    let kinds: &[FamilyKind] = match spec.kind {
        StoreKind::KeyValue => &[FamilyKind::KeyValue],
        StoreKind::TimestampedKeyValue => &[FamilyKind::Stamped],
        StoreKind::Versioned { .. } => &[FamilyKind::Versions, FamilyKind::Latest],
        StoreKind::Window { .. } | StoreKind::Session { .. } => {
            &[FamilyKind::Windowed, FamilyKind::Times]
        }
    };
    kinds
        .iter()
        .map(|kind| FamilySpec::new(*kind, &spec.name))
        .collect()
}

/// The stores of a database and their tables.
pub(super) struct BuiltStores {
    pub(super) tables: Arc<[Table]>,
    pub(super) entries: Vec<StoreEntry>,
    /// The tables of the stores in memory, empty.
    pub(super) memory: Vec<MemoryTable>,
}

/// Builds the stores over their tables.
pub(super) fn build_stores(
    rocks: &Arc<RocksDb>,
    stores: &[StoreSpec],
    states: &[StoreState],
    horizons: &[(String, Horizon)],
    level: MetricsLevel,
) -> Result<BuiltStores> {
    let mut tables: Vec<Table> = Vec::new();
    let mut entries = Vec::new();
    let mut memory = Vec::new();
    for (n, spec) in stores.iter().enumerate() {
        let first = tables.len();
        for family in store_families(spec) {
            let place = if spec.persistent {
                Place::Files(rocks.family(&family)?)
            } else {
                memory.push(MemoryTable::default());
                Place::Memory(memory.len() - 1)
            };
            tables.push(Table {
                number: tables.len(),
                place,
                kind: family.kind,
            });
        }
        let counts = StoreCounts::new(level);
        let missing = |what: &str| {
            Error::new(
                ErrorKind::InvalidState,
                format!("there is no {what} of this store"),
            )
            .store(&spec.name)
        };
        let horizon = || {
            let found = horizons.iter().find(|(store, _)| *store == spec.name);
            found
                .map(|(_, horizon)| horizon.clone())
                .ok_or_else(|| missing("expiry horizon"))
        };
        let store = match (&spec.kind, &tables[first..]) {
            (
                StoreKind::Versioned {
                    history_retention,
                    segment_interval,
                },
                [versions, latest],
            ) => {
                let retention = (*history_retention, *segment_interval);
                let store = VersionedStore::new(
                    &spec.name,
                    n,
                    [*versions, *latest],
                    retention,
                    states[n].stream_time,
                    Arc::clone(&counts),
                );
                Store::Versioned(store, horizon()?)
            }
            (
                StoreKind::Window {
                    retention,
                    window_size,
                    retain_duplicates,
                    ..
                },
                [.., windowed, times],
            ) => {
                let rows = WindowedRows::new(
                    &spec.name,
                    n,
                    [*windowed, *times],
                    *retention,
                    Arc::clone(&counts),
                );
                Store::Window(
                    WindowStore {
                        rows,
                        window_size: *window_size,
                        retain_duplicates: *retain_duplicates,
                    },
                    horizon()?,
                )
            }
            (StoreKind::Session { retention }, [.., windowed, times]) => {
                let rows = WindowedRows::new(
                    &spec.name,
                    n,
                    [*windowed, *times],
                    *retention,
                    Arc::clone(&counts),
                );
                Store::Session(SessionStore { rows }, horizon()?)
            }
            (StoreKind::TimestampedKeyValue, [.., table]) => {
                let table = *table;
                let plain = if spec.persistent {
                    plain_rows(rocks, &spec.name, tables.len())?
                } else {
                    None
                };
                tables.extend(plain);
                Store::Timestamped(TimestampedKeyValueStore {
                    name: spec.name.clone(),
                    table,
                    plain,
                    counts: Arc::clone(&counts),
                })
            }
            (_, [table, ..]) => Store::KeyValue(KeyValueStore {
                name: spec.name.clone(),
                table: *table,
                counts: Arc::clone(&counts),
            }),
            (_, []) => return Err(missing("table")),
        };
        entries.push(StoreEntry {
            spec: spec.clone(),
            store,
            counts,
            written: AtomicBool::new(false),
        });
    }
    Ok(BuiltStores {
        tables: tables.into(),
        entries,
        memory,
    })
}

/// The table of a plain key-value store of this name, if it has rows.
fn plain_rows(rocks: &Arc<RocksDb>, name: &str, number: usize) -> Result<Option<Table>> {
    let kind = FamilyKind::KeyValue;
    let Ok(family) = rocks.family(&FamilySpec::new(kind, name)) else {
        return Ok(None);
    };
    Ok(has_rows(rocks, family, kind)?.then_some(Table {
        number,
        place: Place::Files(family),
        kind,
    }))
}

/// Whether a family has rows.
pub(super) fn has_rows(rocks: &Arc<RocksDb>, family: Family, kind: FamilyKind) -> Result<bool> {
    Cursor::new(&rocks.snapshot()?, family, kind, &Bounds::default())?.with(|rows| {
        rows.seek_to_first();
        rows.valid()
    })
}
