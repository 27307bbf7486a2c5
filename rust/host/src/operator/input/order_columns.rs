//! The columns that order rows of equal times (`order_by`).

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::float;
use crate::codec::row::{EncodedRows, RowCodec};

/// The order columns of both sides.
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
    /// The columns with these indices in a payload. `kind`: the operator's kind.
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

    /// Encodes the order columns of a batch: the order of the bytes is that of the rows.
    ///
    /// # Errors
    /// `Serialization` for rows that cannot be encoded.
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns
            .map(|column| float::for_ordering(batch.column(*column)))
            .collect();
        self.codec.encode(&columns)
    }
}
