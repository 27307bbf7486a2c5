//! A database's stores by kind: what the database must know of a kind, it asks here.

use crate::expiry::Horizon;
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::VersionedStore;
use crate::store::window::WindowStore;
use crate::store::windowed::WindowedRows;
use crate::transaction::Table;

#[derive(Clone)]
pub(super) enum Store {
    KeyValue(KeyValueStore),
    Timestamped(TimestampedKeyValueStore),
    Versioned(VersionedStore, Horizon),
    Window(WindowStore, Horizon),
    Session(SessionStore, Horizon),
}

/// How a store's rows grow old.
pub(super) struct Expiry<'a> {
    /// What its compactions ask.
    pub(super) horizon: &'a Horizon,
    /// The horizon less than stream time, in microseconds; -1 is one more.
    pub(super) keep: i64,
    /// Stream time must advance by so much for a flush, or a look for expired files, to be worth
    /// it; in microseconds.
    pub(super) unit: i64,
    /// A table in the order of time: its files are dropped whole.
    pub(super) by_time: Option<Table>,
}

impl Expiry<'_> {
    /// The number of the segment that the horizon has reached at a stream time.
    pub(super) fn segment(&self, stream_time: i64) -> i64 {
        stream_time.saturating_sub(self.keep).div_euclid(self.unit)
    }
}

/// A window store has no segments; its space comes back in about so many parts of its retention.
const PARTS: i64 = 24;

impl Store {
    /// All tables of the store; its rows are in the first.
    pub(super) fn tables(&self) -> Vec<Table> {
        match self {
            Self::KeyValue(store) => vec![store.table],
            Self::Timestamped(store) => store.tables().collect(),
            Self::Versioned(store, _) => <[Table; 2]>::from(store.tables()).to_vec(),
            Self::Window(store, _) => store.rows.tables().to_vec(),
            Self::Session(store, _) => store.rows.tables().to_vec(),
        }
    }

    /// How its rows grow old, if they do.
    pub(super) fn expiry<'a>(&'a self) -> Option<Expiry<'a>> {
        let windowed = |horizon, rows: &'a WindowedRows| Expiry {
            horizon,
            keep: rows.retention() - 1,
            unit: (rows.retention() / PARTS).max(1),
            by_time: Some(rows.tables()[1]),
        };
        match self {
            Self::KeyValue(_) | Self::Timestamped(_) => None,
            Self::Versioned(store, horizon) => Some(Expiry {
                horizon,
                keep: store.history_retention(),
                unit: store.segment_interval(),
                by_time: None,
            }),
            Self::Window(store, horizon) => Some(windowed(horizon, &store.rows)),
            Self::Session(store, horizon) => Some(windowed(horizon, &store.rows)),
        }
    }
}
