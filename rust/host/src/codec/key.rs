//! Keys as bytes: the arrow-row encoding of the key columns. Byte order is SQL's order of the rows.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::Field;
use holdfast_core::Result;

use crate::codec::row::{EncodedRows, RowCodec};

/// Encodes keys of fixed column types.
pub struct KeyCodec {
    rows: RowCodec,
}

impl KeyCodec {
    /// A codec for keys of these fields.
    ///
    /// # Errors
    /// As [`RowCodec::new`].
    pub fn new<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Result<Self> {
        Ok(Self {
            rows: RowCodec::new(fields)?,
        })
    }

    /// Encodes keys from these columns.
    ///
    /// # Errors
    /// `Serialization` if a column cannot be encoded.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Keys> {
        let rows = self.rows.encode(columns)?;
        let nulls = columns.iter().fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        Ok(Keys { rows, nulls })
    }

    /// Decodes keys into their columns.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not such keys.
    pub fn decode<'a>(&'a self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        self.rows.decode(keys.into_iter().map(Some))
    }
}

/// Encoded keys of a batch.
pub struct Keys {
    rows: EncodedRows,
    nulls: Option<NullBuffer>,
}

impl Keys {
    /// Returns the key of a row; `None` if a key column is null, because null equals nothing.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        match &self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.rows.get(row)),
        }
    }

    /// Returns the encoded rows, in which null is an ordinary value.
    pub fn rows(&self) -> &EncodedRows {
        &self.rows
    }

    /// Returns the key of a row; null is an ordinary value, as in a GROUP BY.
    #[inline]
    pub fn with_nulls(&self, row: usize) -> &[u8] {
        self.rows.get(row)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringArray};
    use arrow_schema::DataType;

    use super::*;

    fn keys(words: Vec<Option<&str>>, numbers: Vec<Option<i32>>) -> Keys {
        let fields = [
            Field::new("k0", DataType::Utf8, true),
            Field::new("k1", DataType::Int32, true),
        ];
        let columns: [ArrayRef; 2] = [
            Arc::new(StringArray::from(words)),
            Arc::new(Int32Array::from(numbers)),
        ];
        KeyCodec::new(&fields)
            .expect("supported types")
            .encode(&columns)
            .expect("encoded")
    }

    /// Pins the stored format, as in `row.rs`.
    #[test]
    fn bytes_of_a_compound_key_never_change() {
        let keys = keys(vec![Some("EUR")], vec![Some(-1)]);
        let hex: String = keys
            .get(0)
            .expect("no nulls")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "02455552000000000003017fffffff");
    }

    #[test]
    fn key_with_a_null_is_none() {
        let keys = keys(
            vec![None, Some("a"), Some("a")],
            vec![Some(1), None, Some(1)],
        );
        assert_eq!((keys.get(0), keys.get(1)), (None, None));
        assert!(keys.get(2).is_some());
    }

    #[test]
    fn byte_order_is_row_order() {
        let sorted = keys(
            vec![Some(""), Some("a"), Some("a"), Some("ab")],
            vec![Some(9), Some(-9), Some(9), Some(-9)],
        );
        let bytes: Vec<_> = (0..4)
            .map(|row| sorted.get(row).expect("no nulls"))
            .collect();
        assert!(bytes.is_sorted(), "{bytes:?}");
    }
}
