//! Typed columns as bytes, and back.

use crate::column::{BytesColumn, bytes_column};
use crate::error::{Error, ErrorKind, Result};
use crate::serde::definition::{Serde, SerdeKind};
use crate::serde::format::cells::{CellData, Cells};
use crate::serde::format::key;
use crate::serde::format::sink::Sink;
use crate::serde::format::stored_column::{Shape, StoredColumn};
use crate::serde::side::SerdeSide;
use crate::serde::{text, timestamp};
use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Fields};
use std::sync::Arc;

impl Serde {
    /// Encodes each row of a column; null stays null.
    ///
    /// The chunks are one column; `what` names it in errors.
    ///
    /// # Errors
    /// `InvalidType` for a column of another type or with other fields. `InvalidValue` for a null
    /// that the schema does not allow, for a time out of range, for two fields of one name, and for
    /// chunks that do not fit together. `Serialization` for a text that is not JSON. If one row is
    /// wrong, the message names it; if an item of a list is null, the message has the number of the
    /// item among those of all rows.
    pub fn encode(&self, chunks: &[ArrayRef], side: SerdeSide, what: &str) -> Result<ArrayRef> {
        let array = one_array(chunks, what)?;
        let array = match &self.kind {
            SerdeKind::Text { json } => return text::check(array, *json, what),
            SerdeKind::Timestamp => timestamp::micros(&array, what)?,
            SerdeKind::Plain | SerdeKind::Struct(_) => array,
        };
        let cells = Cells::new(&array, &self.column, what, None)?;
        let rows = array.len();
        let mut bytes = Vec::with_capacity(rows * usual_width(&self.column));
        let mut ends: Vec<i64> = Vec::with_capacity(rows + 1);
        ends.push(0);
        let mut nulls = NullBufferBuilder::new(rows);
        for row in 0..rows {
            let is_valid = cells.is_valid(row);
            nulls.append(is_valid);
            if is_valid {
                match (&self.kind, &cells.data, side) {
                    (SerdeKind::Struct(codec), CellData::Struct(fields), SerdeSide::Value) => {
                        codec.put(&mut bytes, fields, row)
                    }
                    _ => key::put(
                        &mut bytes,
                        &cells,
                        &self.column,
                        row,
                        side == SerdeSide::Key,
                    ),
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

    /// Decodes a column that `encode` made; null stays null.
    ///
    /// Errors show the row's key if `keys` has it.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not of this serde, or are rows whose columns do not fit:
    /// the message names the column. `InvalidType` for a column that is neither binary nor string.
    /// `InvalidValue` for chunks that do not fit together, and if the result is too large for an
    /// Arrow column.
    pub fn decode(
        &self,
        chunks: &[ArrayRef],
        side: SerdeSide,
        what: &str,
        keys: Option<&ArrayRef>,
    ) -> Result<ArrayRef> {
        let array = one_array(chunks, what)?;
        let stored = bytes_column(array.as_ref(), what)?;
        if let SerdeKind::Text { .. } = self.kind {
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

    /// Decodes rows as a typed column; an error comes with its row.
    fn decode_rows<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
        side: SerdeSide,
    ) -> std::result::Result<ArrayRef, (usize, Error)> {
        let mut sink = Sink::new(&self.column, rows.len());
        let mut reader = match &self.kind {
            SerdeKind::Struct(codec) if side == SerdeSide::Value => Some(codec.reader()),
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
        // Large, view and dictionary forms are returned as they were declared.
        arrow_cast::cast(&array, &self.declared)
            .map_err(|error| (0, Error::new(ErrorKind::Serialization, error.to_string())))
    }

    /// Encodes one struct, given as a column of one row.
    ///
    /// # Errors
    /// As `encode`; `InvalidValue` if there is not one row, or if it is null.
    pub fn encode_row(&self, chunks: &[ArrayRef], side: SerdeSide) -> Result<Vec<u8>> {
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

    /// Decodes a struct that `encode_row` made, as a column of one row.
    ///
    /// # Errors
    /// As `decode`.
    pub fn decode_row(&self, bytes: &[u8], side: SerdeSide) -> Result<ArrayRef> {
        self.decode_rows(std::iter::once(Some(bytes)), side)
            .map_err(|(_, error)| error)
    }

    /// Encodes the first fields of a key, given as a struct column of one row. All keys with these
    /// fields begin with the returned bytes.
    ///
    /// # Errors
    /// As `encode_row`; `InvalidType` for fields that are not the first fields of this serde.
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
            .map(StoredColumn::field)
            .collect();
        let serde = Self::of_struct(&fields)?;
        serde.encode_row(&[array], SerdeSide::Key)
    }
}

/// The bytes to reserve for each row.
fn usual_width(column: &StoredColumn) -> usize {
    match &column.shape {
        Shape::Bool => 1,
        Shape::Fixed(width, _) => *width,
        _ => 32,
    }
}

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
