//! A read of a table.

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::store_handle::TimeSpan;

/// A read of one partition of a table. The batch beside it has the keys or the bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadCall {
    /// Which rows.
    pub rows: ReadRows,
    /// The moment at which a versioned table is read, in epoch microseconds; none: now.
    pub as_of: Option<i64>,
    /// The first time of versions, windows or sessions, in epoch microseconds; none: the earliest.
    pub from: Option<i64>,
    /// The last time of them; none: the latest.
    pub to: Option<i64>,
    /// The columns of the result, in this order; none: all.
    pub columns: Option<Vec<String>>,
    /// The most rows; none: all.
    pub limit: Option<u64>,
}

/// Which rows of a table a read asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadRows {
    /// One row for each row of the batch, which has the key's columns. In a window or session table
    /// the columns of its times follow. In a versioned table a last column `as_of` may follow.
    Get,
    /// All rows.
    #[default]
    All,
    /// The rows whose keys begin with the batch's only row.
    Prefix,
    /// The rows whose keys are not below the batch's only row.
    From,
    /// The rows whose keys are not above the batch's only row. Keys that begin with it are not
    /// above it.
    To,
    /// The rows whose keys are between the batch's two rows.
    Between,
    /// The versions of the batch's only row, oldest first.
    VersionsOfKey,
    /// The versions of all keys, by key, oldest first.
    Versions,
}

impl ReadCall {
    /// Parses a call from JSON.
    ///
    /// # Errors
    /// `InvalidValue` names the field that is wrong.
    pub fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json)
            .map_err(|error| Error::new(ErrorKind::InvalidValue, format!("invalid read: {error}")))
    }

    /// The times that a scan is limited to.
    pub fn span(&self) -> TimeSpan {
        TimeSpan {
            from: self.from,
            to: self.to,
        }
    }
}
