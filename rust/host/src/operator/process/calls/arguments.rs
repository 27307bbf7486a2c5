//! The arguments of a call.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow_schema::DataType;
use holdfast_core::{Error, ErrorKind, Result, Timestamp};

use crate::net::OTHER_VERSION;

/// The columns of a call's batch, by name.
///
/// Bytes are binary, times int64 microseconds, flags booleans. The worker has converted them and
/// checked them for nulls, so a column that is missing or of another type is `InvalidState`.
pub struct CallArguments<'a> {
    batch: &'a RecordBatch,
}

impl<'a> CallArguments<'a> {
    /// The arguments of a call.
    pub fn new(batch: &'a RecordBatch) -> Self {
        Self { batch }
    }

    /// Keys, one for each row.
    pub fn keys(&self, name: &str) -> Result<Vec<&'a [u8]>> {
        let column = self.binary(name)?;
        if column.null_count() > 0 {
            return Err(wrong(name, "has nulls"));
        }
        Ok(column.iter().flatten().collect())
    }

    /// Bytes or null, one for each row.
    pub fn values(&self, name: &str) -> Result<Vec<Option<&'a [u8]>>> {
        Ok(self.binary(name)?.iter().collect())
    }

    /// Bytes or null, one for each row; none if the column is missing.
    pub fn optional_values(&self, name: &str) -> Result<Option<Vec<Option<&'a [u8]>>>> {
        self.batch
            .column_by_name(name)
            .map(|_| self.values(name))
            .transpose()
    }

    /// Times, one for each row.
    pub fn times(&self, name: &str) -> Result<Vec<Timestamp>> {
        self.optional_times(name)?
            .ok_or_else(|| wrong(name, "is missing"))
    }

    /// Times, one for each row; none if the column is missing.
    pub fn optional_times(&self, name: &str) -> Result<Option<Vec<Timestamp>>> {
        let Some(column) = self.batch.column_by_name(name) else {
            return Ok(None);
        };
        let times = column
            .as_primitive_opt::<Int64Type>()
            .filter(|times| times.null_count() == 0);
        let times = times.ok_or_else(|| wrong(name, "is not of integers, or has nulls"))?;
        Ok(Some(
            times.values().iter().map(|time| Timestamp(*time)).collect(),
        ))
    }

    /// Booleans, one for each row.
    pub fn flags(&self, name: &str) -> Result<Vec<bool>> {
        let flags = self
            .column(name)?
            .as_boolean_opt()
            .filter(|flags| flags.null_count() == 0);
        Ok(flags
            .ok_or_else(|| wrong(name, "is not of booleans, or has nulls"))?
            .values()
            .iter()
            .collect())
    }

    /// Booleans, one for each row; none if the column is missing.
    pub fn optional_flags(&self, name: &str) -> Result<Option<Vec<bool>>> {
        self.batch
            .column_by_name(name)
            .map(|_| self.flags(name))
            .transpose()
    }

    /// The only row's bytes, or null.
    pub fn bound(&self, name: &str) -> Result<Option<&'a [u8]>> {
        self.values(name)?
            .first()
            .copied()
            .ok_or_else(|| wrong(name, "has no row"))
    }

    /// The only row's key.
    pub fn key(&self, name: &str) -> Result<&'a [u8]> {
        self.bound(name)?.ok_or_else(|| wrong(name, "is null"))
    }

    /// The only row's time.
    pub fn time(&self, name: &str) -> Result<Timestamp> {
        self.times(name)?
            .first()
            .copied()
            .ok_or_else(|| wrong(name, "has no row"))
    }

    /// The only row's boolean.
    pub fn flag(&self, name: &str) -> Result<bool> {
        self.flags(name)?
            .first()
            .copied()
            .ok_or_else(|| wrong(name, "has no row"))
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef> {
        self.batch
            .column_by_name(name)
            .ok_or_else(|| wrong(name, "is missing"))
    }

    fn binary(&self, name: &str) -> Result<&'a BinaryArray> {
        let column = self.column(name)?;
        if *column.data_type() != DataType::Binary {
            return Err(wrong(name, "is not of bytes"));
        }
        Ok(column.as_binary::<i32>())
    }
}

fn wrong(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidState,
        format!("a call's argument {name} {what}: {OTHER_VERSION}"),
    )
}
