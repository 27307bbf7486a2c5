//! A store of any kind, as the database uses it.

use crate::expiry::Horizon;
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::VersionedStore;
use crate::store::window::WindowStore;
use crate::store::windowed::WindowedRows;
use crate::transaction::Table;

/// A store of any kind; those whose rows expire come with their horizon.
#[derive(Clone)]
pub(in crate::database) enum Store {
    KeyValue(KeyValueStore),
    Timestamped(TimestampedKeyValueStore),
    Versioned(VersionedStore, Horizon),
    Window(WindowStore, Horizon),
    Session(SessionStore, Horizon),
}

/// How a store's rows expire.
pub(in crate::database) struct StoreExpiry<'a> {
    /// The horizon that its compactions use.
    pub(in crate::database) horizon: &'a Horizon,
    /// Microseconds from the horizon to stream time. With -1 the horizon is one microsecond after
    /// stream time.
    pub(in crate::database) keep: i64,
    /// Microseconds that stream time must advance before a flush or a search for expired files is
    /// worth it.
    pub(in crate::database) unit: i64,
    /// A table in time order, whose files are dropped whole.
    pub(in crate::database) by_time: Option<Table>,
}

impl StoreExpiry<'_> {
    /// The segment of the horizon at a stream time.
    pub(in crate::database) fn segment(&self, stream_time: i64) -> i64 {
        stream_time.saturating_sub(self.keep).div_euclid(self.unit)
    }
}

/// A window or session store has no segments. Its retention is cut into about this many parts, and
/// space is freed part by part.
const PARTS: i64 = 24;

impl Store {
    /// All tables of the store. The first holds its rows; a timestamped store that was a key-value
    /// store may have rows in the second, too.
    pub(in crate::database) fn tables(&self) -> Vec<Table> {
        match self {
            Self::KeyValue(store) => vec![store.table],
            Self::Timestamped(store) => store.tables().collect(),
            Self::Versioned(store, _) => <[Table; 2]>::from(store.tables()).to_vec(),
            Self::Window(store, _) => store.rows.tables().to_vec(),
            Self::Session(store, _) => store.rows.tables().to_vec(),
        }
    }

    /// The tables that hold the store's rows. Its other tables repeat these rows.
    pub(in crate::database) fn row_tables(&self) -> impl Iterator<Item = Table> {
        let count = match self {
            Self::Timestamped(_) => 2,
            _ => 1,
        };
        self.tables().into_iter().take(count)
    }

    /// How the store's rows expire; `None` if they do not.
    pub(in crate::database) fn expiry<'a>(&'a self) -> Option<StoreExpiry<'a>> {
        let windowed = |horizon, rows: &'a WindowedRows| StoreExpiry {
            horizon,
            keep: rows.retention() - 1,
            unit: (rows.retention() / PARTS).max(1),
            by_time: Some(rows.tables()[1]),
        };
        match self {
            Self::KeyValue(_) | Self::Timestamped(_) => None,
            Self::Versioned(store, horizon) => Some(StoreExpiry {
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
