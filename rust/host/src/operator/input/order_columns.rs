//! The columns that order rows of equal times: those of `order_by`, then all columns.

use std::ops::Range;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use holdfast_core::{Error, ErrorKind, Result};

use super::columns::{FIXED, RowsSpec, SIDE};
use crate::codec::float;
use crate::codec::row::{EncodedRows, RowCodec};

/// The columns of `order_by`, of both sides.
pub struct OrderColumns {
    /// Those of left rows.
    pub left: SideOrder,
    /// Those of right rows.
    pub right: SideOrder,
}

/// The order columns of one side.
pub struct SideOrder {
    columns: Vec<usize>,
    codec: RowCodec,
}

impl SideOrder {
    /// Selects the columns with these indices in a payload. Errors name `kind`, the operator's
    /// kind.
    ///
    /// # Errors
    /// `InvalidValue` for an index out of range.
    pub fn new(
        kind: &str,
        indices: &[usize],
        payload: &Range<usize>,
        schema: &Schema,
    ) -> Result<Self> {
        let place = |index: &usize| {
            let column = payload.start + index;
            payload.contains(&column).then_some(column).ok_or_else(|| {
                let text = format!("{kind}: order_by column {index} does not exist");
                Error::new(ErrorKind::InvalidValue, text)
            })
        };
        let columns: Vec<usize> = indices.iter().map(place).collect::<Result<_>>()?;
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| schema.field(*column).clone())
            .collect();
        Ok(Self {
            codec: RowCodec::new(&fields)?,
            columns,
        })
    }

    /// Encodes the order columns of a batch: the order of the bytes is that of the rows. The sign
    /// of a zero does not count, so the next column decides between `0.0` and `-0.0`.
    ///
    /// # Errors
    /// `Serialization` for rows that cannot be encoded.
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns
            .map(|column| float::for_equality(batch.column(*column)))
            .collect();
        self.codec.encode(&columns)
    }
}

/// All columns but `pid`, in the order in which rows are compared.
///
/// A key of floats is also in the payload, so that the result has its original bits. Such payload
/// columns come last: otherwise the bits of equal keys, such as `0.0` and `-0.0`, would decide the
/// order before the values.
pub struct ContentColumns {
    columns: Vec<usize>,
    codec: RowCodec,
}

impl ContentColumns {
    /// The columns of an input.
    ///
    /// # Errors
    /// `InvalidType` for a type that cannot be encoded.
    pub fn new(spec: &RowsSpec, schema: &Schema) -> Result<Self> {
        let payload = FIXED + spec.keys.len();
        let is_key = |column: &usize| {
            let name = column.checked_sub(payload).and_then(|n| spec.left.get(n));
            name.is_some_and(|name| spec.keys.contains(name))
        };
        let mut columns: Vec<usize> = (SIDE..schema.fields().len()).collect();
        columns.sort_by_key(is_key);
        let fields = columns.iter().map(|column| schema.field(*column));
        Ok(Self {
            codec: RowCodec::new(fields)?,
            columns,
        })
    }

    /// Encodes a batch: the order of the bytes is that of the rows.
    ///
    /// # Errors
    /// `Serialization` for rows that cannot be encoded.
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let columns = self.columns.iter();
        let columns: Vec<ArrayRef> = columns
            .map(|column| ArrayRef::clone(batch.column(*column)))
            .collect();
        self.codec.encode(&columns)
    }
}
