//! Serdes: typed keys and values as bytes, and back, a column at a time.
//!
//! | serde | Arrow type of a column | key | value |
//! | --- | --- | --- | --- |
//! | string | string | its UTF-8 | the same |
//! | int64 | int64 | 8 bytes, big-endian, sign bit flipped | the same |
//! | float64 | float64 | 8 ordered bytes; one zero, one NaN, the greatest | 8 bytes as they are |
//! | bool | bool | 00 or 01 | the same |
//! | timestamp | timestamp\[us, UTC\] (or int64) | epoch microseconds, int64 | the same |
//! | json | string | the text | the same |
//! | struct | struct | its fields in order (`ordered.rs`) | a row with column names (`row.rs`) |
//!
//! Keys order by their bytes as Spark SQL orders the values: nulls first (fields of a struct), NaN
//! last, negative numbers below positive ones, strings by UTF-8, false below true. The bytes are
//! part of the stored format: tests pin them.
//!
//! arrow-row, which the host uses inside, has no promise of stable bytes, leaves NaNs and zeros as
//! they are, pads strings to blocks and knows no change of schema; so the encoding is our own
//! (`docs/design/serde-bytes.md`).

mod cells;
mod column;
mod fields;
mod key;
mod ordered;
mod row;
mod scalar;
mod sink;
mod text;
mod timestamp;

use crate::column::{BytesColumn, bytes_column};
use crate::error::{Error, ErrorKind, Result};
use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use cells::{Cells, Data};
use column::{Column, Shape};
use row::RowCodec;
use sink::Sink;
use std::sync::Arc;

pub use fields::Item;
pub use scalar::Scalar;

/// Whether bytes are those of a key or of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// They order as the values do.
    Key,
    /// They keep every bit, and a struct's columns may come and go.
    Value,
}

/// How keys or values of one type become bytes.
#[derive(Debug)]
pub struct Serde {
    kind: Kind,
    column: Column,
    /// The type that columns have outside.
    declared: DataType,
}

#[derive(Debug)]
enum Kind {
    Text { json: bool },
    Timestamp,
    Plain,
    Struct(RowCodec),
}

impl Serde {
    /// The serde of a name: `string`, `int64`, `float64`, `bool`, `timestamp` or `json`.
    ///
    /// # Errors
    /// `InvalidValue` for another name.
    pub fn named(name: &str) -> Result<Self> {
        let (kind, data_type) = match name {
            "string" => (Kind::Text { json: false }, DataType::Utf8),
            "json" => (Kind::Text { json: true }, DataType::Utf8),
            "int64" => (Kind::Plain, DataType::Int64),
            "float64" => (Kind::Plain, DataType::Float64),
            "bool" => (Kind::Plain, DataType::Boolean),
            "timestamp" => (Kind::Timestamp, timestamp::data_type()),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    format!("there is no serde {name:?}"),
                ));
            }
        };
        let column = Column::new(&Field::new("", data_type.clone(), true), name)?;
        Ok(Self {
            kind,
            column,
            declared: data_type,
        })
    }

    /// The serde of structs with these fields.
    ///
    /// # Errors
    /// `InvalidType` names a field whose type cannot be stored; `InvalidValue` one that is there
    /// twice.
    pub fn of_struct(fields: &Fields) -> Result<Self> {
        let declared = DataType::Struct(fields.clone());
        let column = Column::new(&Field::new("", declared.clone(), true), "")?;
        let Shape::Struct(columns) = &column.shape else {
            return Err(Error::new(ErrorKind::InvalidType, "a struct has fields"));
        };
        Ok(Self {
            kind: Kind::Struct(RowCodec::new(columns)?),
            column,
            declared,
        })
    }

    /// The Arrow type of typed columns.
    pub fn data_type(&self) -> &DataType {
        &self.declared
    }

    /// Fails unless it can be a key's serde: lists and maps have no order.
    ///
    /// # Errors
    /// `InvalidType` names the field.
    pub fn check_key(&self) -> Result<()> {
        self.column.check_key("")
    }

    /// A column as bytes, a row a row, null where it is null. The chunks are one column; `what`
    /// names it in errors.
    ///
    /// # Errors
    /// `InvalidType` names the column, what came and what is wanted; `InvalidValue` and
    /// `Serialization` name the row.
    pub fn encode(&self, chunks: &[ArrayRef], side: Side, what: &str) -> Result<ArrayRef> {
        let array = one_array(chunks, what)?;
        let array = match &self.kind {
            Kind::Text { json } => return text::check(array, *json, what),
            Kind::Timestamp => timestamp::micros(&array, what)?,
            Kind::Plain | Kind::Struct(_) => array,
        };
        let cells = Cells::new(&array, &self.column, what, None)?;
        let rows = array.len();
        let mut bytes = Vec::with_capacity(rows * self.usual_width());
        let mut ends: Vec<i64> = Vec::with_capacity(rows + 1);
        ends.push(0);
        let mut nulls = NullBufferBuilder::new(rows);
        for row in 0..rows {
            let is_valid = cells.is_valid(row);
            nulls.append(is_valid);
            if is_valid {
                match (&self.kind, &cells.data, side) {
                    (Kind::Struct(codec), Data::Struct(fields), Side::Value) => {
                        codec.put(&mut bytes, fields, row)
                    }
                    _ => key::put(&mut bytes, &cells, &self.column, row, side == Side::Key),
                }
            }
            ends.push(bytes.len() as i64);
        }
        let array = LargeBinaryArray::try_new(
            OffsetBuffer::new(ends.into()),
            Buffer::from_vec(bytes),
            nulls.finish(),
        );
        array
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|error| Error::new(ErrorKind::InvalidState, error.to_string()))
    }

    /// The typed column of bytes that `encode` made; null stays null. Errors show the key of a row
    /// that `keys` has.
    ///
    /// # Errors
    /// `Serialization` where the bytes are not what this serde writes, or rows of columns that do
    /// not fit: it names the column.
    pub fn decode(
        &self,
        chunks: &[ArrayRef],
        side: Side,
        what: &str,
        keys: Option<&ArrayRef>,
    ) -> Result<ArrayRef> {
        let array = one_array(chunks, what)?;
        let stored = bytes_column(array.as_ref(), what)?;
        if let Kind::Text { .. } = self.kind {
            return text::decode(&array).map_err(|error| {
                let bad = (0..stored.len()).find(|row| {
                    stored
                        .get(*row)
                        .is_some_and(|bytes| std::str::from_utf8(bytes).is_err())
                });
                not_decoded(&error, &stored, bad.unwrap_or(0), what, keys)
            });
        }
        let rows = (0..stored.len()).map(|row| stored.get(row));
        self.decode_rows(rows, side)
            .map_err(|(row, error)| not_decoded(&error, &stored, row, what, keys))
    }

    /// The typed column of rows; an error comes with its row.
    fn decode_rows<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
        side: Side,
    ) -> std::result::Result<ArrayRef, (usize, Error)> {
        let mut sink = Sink::new(&self.column, rows.len());
        let mut reader = match &self.kind {
            Kind::Struct(codec) if side == Side::Value => Some(codec.reader()),
            _ => None,
        };
        for (row, bytes) in rows.enumerate() {
            let read = match (bytes, &mut reader) {
                (None, _) => {
                    sink.push_null();
                    Ok(())
                }
                (Some(bytes), Some(reader)) => reader.read(bytes, &mut sink),
                (Some(bytes), None) => key::read(bytes, &self.column, &mut sink),
            };
            read.map_err(|error| (row, error))?;
        }
        let array = sink.finish().map_err(|error| (0, error))?;
        if *array.data_type() == self.declared {
            return Ok(array);
        }
        // Large, view and dictionary forms are wanted back as they were declared.
        arrow_cast::cast(&array, &self.declared)
            .map_err(|error| (0, Error::new(ErrorKind::Serialization, error.to_string())))
    }

    /// The bytes of a struct, the one row of a column.
    ///
    /// # Errors
    /// As `encode`.
    pub fn encode_row(&self, chunks: &[ArrayRef], side: Side) -> Result<Vec<u8>> {
        let encoded = self.encode(chunks, side, "row")?;
        let bytes = bytes_column(encoded.as_ref(), "row")?;
        match (bytes.len(), bytes.get(0)) {
            (1, Some(bytes)) => Ok(bytes.to_vec()),
            _ => Err(Error::new(
                ErrorKind::InvalidValue,
                "wanted: a column of one row that is not null",
            )),
        }
    }

    /// The struct of bytes that `encode_row` made, as a column of one row.
    ///
    /// # Errors
    /// As `decode`.
    pub fn decode_row(&self, bytes: &[u8], side: Side) -> Result<ArrayRef> {
        self.decode_rows(std::iter::once(Some(bytes)), side)
            .map_err(|(_, error)| error)
    }

    /// The bytes with which every key begins whose first fields are those of a struct, the one row
    /// of a column.
    ///
    /// # Errors
    /// As `encode`; `InvalidType` for fields that are not the first of this serde's.
    pub fn encode_prefix(&self, chunks: &[ArrayRef]) -> Result<Vec<u8>> {
        let array = one_array(chunks, "prefix")?;
        let (Shape::Struct(columns), DataType::Struct(found)) =
            (&self.column.shape, array.data_type())
        else {
            return Err(Error::new(
                ErrorKind::InvalidType,
                "wanted: a struct of the key's first fields",
            ));
        };
        let fields: Fields = columns
            .iter()
            .take(found.len())
            .map(Column::field)
            .collect();
        let serde = Self::of_struct(&fields)?;
        serde.encode_row(&[array], Side::Key)
    }

    /// What a store keeps about its serde: a name, for structs also the columns.
    pub fn descriptor(&self) -> Vec<u8> {
        match (&self.kind, &self.column.shape) {
            (Kind::Struct(_), Shape::Struct(columns)) => {
                let mut descriptor = STRUCT.to_vec();
                column::describe(columns, &mut descriptor);
                descriptor
            }
            (Kind::Text { json: true }, _) => b"json".to_vec(),
            (Kind::Text { json: false }, _) => b"string".to_vec(),
            (Kind::Timestamp, _) => b"timestamp".to_vec(),
            (_, Shape::Bool) => b"bool".to_vec(),
            (_, Shape::Fixed(_, ordered::Order::Float)) => b"float64".to_vec(),
            _ => b"int64".to_vec(),
        }
    }

    /// The serde of a descriptor; it does not say which columns may not be null, so all may.
    ///
    /// # Errors
    /// `InvalidValue` or `Serialization` for what no serde has described.
    pub fn of_descriptor(descriptor: &[u8]) -> Result<Self> {
        match descriptor.strip_prefix(STRUCT) {
            Some(mut columns) => Self::of_struct(
                &column::parse(&mut columns)?
                    .iter()
                    .map(Column::field)
                    .collect(),
            ),
            None => Self::named(&String::from_utf8_lossy(descriptor)),
        }
    }

    /// Fails unless what was written with the serde of a descriptor can be read with this one. A
    /// key's columns are fixed; a value's may come and go, as far as they may be null.
    ///
    /// # Errors
    /// `InvalidValue` for another serde, `Serialization` for columns that do not fit: it names the
    /// first.
    pub fn check_descriptor(&self, stored: &[u8], side: Side) -> Result<()> {
        let own = self.descriptor();
        let (Some(mut written), Shape::Struct(columns), Kind::Struct(_)) =
            (stored.strip_prefix(STRUCT), &self.column.shape, &self.kind)
        else {
            let name = |descriptor: &[u8]| match descriptor.starts_with(STRUCT) {
                true => "struct".to_owned(),
                false => String::from_utf8_lossy(descriptor).into_owned(),
            };
            return if stored == own {
                Ok(())
            } else {
                let message = format!(
                    "it was written with the serde {} and is now opened with {}",
                    name(stored),
                    name(&own)
                );
                Err(Error::new(ErrorKind::InvalidValue, message))
            };
        };
        let written = column::parse(&mut written)?;
        match side {
            Side::Value => row::check_evolution(&written, columns),
            Side::Key if stored == own => Ok(()),
            Side::Key => Err(Error::new(
                ErrorKind::InvalidValue,
                format!(
                    "its columns were {} and are now {}; a key's are fixed",
                    column::listed(&written),
                    column::listed(columns)
                ),
            )),
        }
    }

    fn usual_width(&self) -> usize {
        match &self.column.shape {
            Shape::Bool => 1,
            Shape::Fixed(width, _) => *width,
            _ => 32,
        }
    }
}

/// How the descriptor of structs begins.
const STRUCT: &[u8] = b"struct\0";

fn one_array(chunks: &[ArrayRef], what: &str) -> Result<ArrayRef> {
    match chunks {
        [array] => Ok(array.clone()),
        _ => {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            arrow_select::concat::concat(&chunks).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidValue,
                    format!("column {what}: its chunks do not fit together: {error}"),
                )
            })
        }
    }
}

fn not_decoded(
    error: &Error,
    stored: &BytesColumn<'_>,
    row: usize,
    what: &str,
    keys: Option<&ArrayRef>,
) -> Error {
    let bytes = stored.get(row).unwrap_or_default();
    let shown = bytes[..bytes.len().min(32)].escape_ascii();
    let message =
        format!("row {row} of {what} ({shown}) cannot be read with the store's serde: {error}");
    let error = Error::new(error.kind(), message);
    let keys = keys.and_then(|keys| bytes_column(keys.as_ref(), "keys").ok());
    match keys
        .as_ref()
        .filter(|keys| row < keys.len())
        .and_then(|keys| keys.get(row))
    {
        Some(key) => error.key(key),
        None => error,
    }
}
