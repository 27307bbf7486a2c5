//! How a table's keys are encoded.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow_schema::Field;
use holdfast_core::column::bytes_column;
use holdfast_core::serde::{Serde, SerdeSide};
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::first_bytes::first_bytes;
use crate::codec::float;
use crate::codec::key::{KeyCodec, Keys};

/// From this many keys on, a sort of the keys saves time.
const MANY_KEYS: usize = 1000;

/// The columns of a table's keys, and their bytes.
pub struct KeyForm {
    fields: Vec<Field>,
    encoding: KeyEncoding,
}

enum KeyEncoding {
    /// The operator's key columns.
    Columns(KeyCodec),
    /// One column with a user's serde; none: bytes.
    Serde(Option<Serde>),
}

/// The bytes of a batch's keys.
pub enum EncodedKeys {
    /// Keys of columns, and how many there are.
    Columns(Keys, usize),
    /// A column of bytes.
    Bytes(ArrayRef),
}

impl EncodedKeys {
    /// Returns the bytes of each key. With a serde, a null is no key.
    ///
    /// # Errors
    /// `InvalidType` if a serde did not encode keys as bytes.
    pub fn all(&self) -> Result<Vec<Option<&[u8]>>> {
        Ok(match self {
            // Keys of groups and of deduplications may have nulls. Keys of other tables have none,
            // so a key with nulls finds no row there.
            Self::Columns(keys, rows) => (0..*rows).map(|row| Some(keys.with_nulls(row))).collect(),
            Self::Bytes(column) => {
                let bytes = bytes_column(column.as_ref(), "keys")?;
                (0..bytes.len()).map(|row| bytes.get(row)).collect()
            }
        })
    }
}

impl KeyForm {
    /// Keys of these columns.
    ///
    /// # Errors
    /// `InvalidType` for a column that cannot be encoded.
    pub fn columns(fields: Vec<Field>) -> Result<Self> {
        Ok(Self {
            encoding: KeyEncoding::Columns(KeyCodec::new(&fields)?),
            fields,
        })
    }

    /// Keys of one column with a serde; without one they are bytes.
    pub fn serde(field: Field, serde: Option<Serde>) -> Self {
        Self {
            fields: vec![field],
            encoding: KeyEncoding::Serde(serde),
        }
    }

    /// The key's columns.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether the key's columns choose the partition.
    pub fn routes(&self) -> bool {
        matches!(self.encoding, KeyEncoding::Columns(_))
    }

    /// Encodes the leading columns of a batch as keys.
    ///
    /// # Errors
    /// `InvalidType` names the column that has another type than the table's; `InvalidValue` if a
    /// column is missing or has another name; `Serialization` or the serde's error if the keys
    /// cannot be encoded.
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedKeys> {
        let columns = self.leading(batch, self.fields.len())?;
        Ok(match &self.encoding {
            KeyEncoding::Columns(codec) => {
                EncodedKeys::Columns(codec.encode(&columns)?, batch.num_rows())
            }
            KeyEncoding::Serde(Some(serde)) => {
                EncodedKeys::Bytes(serde.encode(&columns, SerdeSide::Key, "keys")?)
            }
            KeyEncoding::Serde(None) => EncodedKeys::Bytes(Arc::clone(&columns[0])),
        })
    }

    /// Returns the numbers of a batch's rows, roughly in the order of their keys if there are many.
    ///
    /// Neighbouring keys are in one block of a file, so a host finds them faster one after the
    /// other. Only the first bytes are compared. Keys of a processor's store are not sorted.
    ///
    /// # Errors
    /// As [`KeyForm::encode`].
    pub fn ascending(&self, batch: &RecordBatch) -> Result<Vec<u64>> {
        let rows = 0..batch.num_rows() as u64;
        let KeyEncoding::Columns(codec) = &self.encoding else {
            return Ok(rows.collect());
        };
        if batch.num_rows() < MANY_KEYS {
            return Ok(rows.collect());
        }
        let keys = codec.encode(&self.leading(batch, self.fields.len())?)?;
        let mut ordered: Vec<(u128, u64)> = (0..batch.num_rows())
            .map(|row| first_bytes(keys.with_nulls(row)))
            .zip(rows)
            .collect();
        ordered.sort_unstable();
        Ok(ordered.into_iter().map(|(_, row)| row).collect())
    }

    /// Encodes the leading columns of a row, which may be fewer than the key's. All keys with these
    /// values begin with the result.
    ///
    /// # Errors
    /// As [`KeyForm::encode`]; `InvalidValue` also for a null in a column with a serde.
    pub fn encode_bound(&self, batch: &RecordBatch, row: usize) -> Result<Vec<u8>> {
        self.times_beside(batch, &[])?;
        let count = batch.num_columns();
        let columns = self.leading(batch, count)?;
        match &self.encoding {
            KeyEncoding::Columns(_) => {
                let keys = KeyCodec::new(&self.fields[..count])?.encode(&columns)?;
                Ok(keys.with_nulls(row).to_vec())
            }
            KeyEncoding::Serde(_) => {
                let keys = self.encode(&batch.slice(row, 1))?;
                let key = keys.all()?.first().copied().flatten().map(<[u8]>::to_vec);
                key.ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidValue,
                        "a bound of a range of keys is null",
                    )
                })
            }
        }
    }

    /// Returns the columns after the key's. Their names must be the first of `names`, or all.
    ///
    /// # Errors
    /// `InvalidValue` for another column.
    pub fn times_beside<'b>(
        &self,
        batch: &'b RecordBatch,
        names: &[&str],
    ) -> Result<&'b [ArrayRef]> {
        let count = self.fields.len().min(batch.num_columns());
        let beside = &batch.schema_ref().fields()[count..];
        let mut numbered = beside.iter().enumerate();
        match numbered.find(|(n, field)| names.get(*n) != Some(&field.name().as_str())) {
            Some((_, field)) => Err(other_columns(field.name())),
            None => Ok(&batch.columns()[count..]),
        }
    }

    fn leading(&self, batch: &RecordBatch, count: usize) -> Result<Vec<ArrayRef>> {
        let wanted = &self.fields[..count];
        if batch.num_columns() < count {
            let names: Vec<&str> = wanted.iter().map(|field| field.name().as_str()).collect();
            let text = format!(
                "the keys have {} columns, the table's are {names:?}",
                batch.num_columns()
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        let given = batch.schema();
        let names = given.fields().iter().map(|field| field.name());
        if let Some((field, name)) = wanted
            .iter()
            .zip(names)
            .find(|(field, name)| field.name() != *name)
        {
            // A rewind allows a query to start with its key columns in another order.
            let text = format!(
                "the keys have the column {name:?} where the table has {:?}: if the query has \
                 other key columns now, get the table from the reader again",
                field.name()
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        let columns = wanted.iter().zip(batch.columns()).map(|(field, column)| {
            if field.data_type() != column.data_type() {
                let text = format!(
                    "key column {} is {}, the table's is {}",
                    field.name(),
                    column.data_type(),
                    field.data_type()
                );
                return Err(Error::new(ErrorKind::InvalidType, text));
            }
            Ok(match self.encoding {
                KeyEncoding::Columns(_) => float::for_equality(column),
                KeyEncoding::Serde(_) => Arc::clone(column),
            })
        });
        columns.collect()
    }

    /// Decodes keys into their columns.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not such keys.
    pub fn decode<'a>(&'a self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        match &self.encoding {
            KeyEncoding::Columns(codec) => codec.decode(keys),
            KeyEncoding::Serde(serde) => {
                let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(keys));
                Ok(vec![match serde {
                    Some(serde) => serde.decode(&[bytes], SerdeSide::Key, "keys", None)?,
                    None => bytes,
                }])
            }
        }
    }
}

/// The error of a column that the table does not have beside its key. After a rewind a query may
/// start with fewer key columns; without this error, a row of another key would be found.
fn other_columns(name: &str) -> Error {
    let text = format!(
        "the keys have more columns than the table's key, or others ({name:?}): if the query has \
         other key columns now, get the table from the reader again"
    );
    Error::new(ErrorKind::InvalidValue, text)
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use arrow_schema::DataType;

    use super::*;

    fn names(count: usize) -> RecordBatch {
        let names = (0..count).map(|n| format!("name {:05}", (n * 7919) % count));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        RecordBatch::try_from_iter([("k", names)]).expect("one column")
    }

    #[test]
    fn many_keys_are_read_in_their_order() {
        let form = KeyForm::columns(vec![Field::new("k", DataType::Utf8, false)]).expect("a type");
        let batch = names(5000);
        let encoded = form.encode(&batch).expect("encoded");
        let keys = encoded.all().expect("bytes");
        let rows = form.ascending(&batch).expect("ordered");
        let ordered: Vec<_> = rows.iter().map(|row| &keys[*row as usize]).collect();
        assert!(ordered.is_sorted());
        assert!(!keys.is_sorted());
        let mut all = rows;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..5000));
    }

    #[test]
    fn few_keys_are_read_as_they_come() {
        let form = KeyForm::columns(vec![Field::new("k", DataType::Utf8, false)]).expect("a type");
        let rows = form.ascending(&names(100)).expect("ordered");
        assert!(rows.into_iter().eq(0..100));
    }
}
