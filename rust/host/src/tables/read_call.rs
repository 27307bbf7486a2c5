//! A read of a table.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::store_handle::TimeSpan;

/// The last column of a read of keys: whether the key was found. A row that was found may have
/// nulls in all its columns. It is read by its place: a column of the user's may have its name.
pub const FOUND: &str = "holdfast.found";

/// Returns the schema with the column that says which keys were found.
pub(super) fn with_found(schema: &Schema) -> SchemaRef {
    let field = Arc::new(Field::new(FOUND, DataType::Boolean, false));
    let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain([field]).collect();
    Arc::new(Schema::new(fields))
}

/// A read of one partition of a table. The batch beside it has the keys or the bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadCall {
    /// Which rows.
    pub rows: ReadRows,
    /// The moment at which a versioned table is read, in epoch microseconds; none: the newest
    /// versions are read. `VersionsOfKey` and `Versions` ignore it.
    pub as_of: Option<i64>,
    /// The first time of versions, windows or sessions, in epoch microseconds; none: the earliest.
    pub from: Option<i64>,
    /// The last time of them; none: the latest.
    pub to: Option<i64>,
    /// The columns of the result, in this order; none: all.
    pub columns: Option<Vec<String>>,
    /// The most rows; none: all. A read of keys ignores it.
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
    /// The rows whose keys are not above the batch's only row. If that row has only the first
    /// columns of the key, all keys with these values are included.
    To,
    /// The rows whose keys are between the batch's two rows, both included. Rows with only the
    /// first columns of the key are as for `To`.
    Between,
    /// The versions of the key in the batch's only row, oldest first. If that row has only the
    /// first columns of the key, the versions of all keys with these values, by key.
    VersionsOfKey,
    /// The versions of all keys, by key, oldest first.
    Versions,
}

impl ReadCall {
    /// Parses a call from JSON.
    ///
    /// # Errors
    /// `InvalidValue` if the JSON is not a read.
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
