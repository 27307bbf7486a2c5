//! Keys: cells as ordered bytes, and back. `ordered.rs` describes the bytes.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::cells::{CellData, Cells};
use crate::serde::format::ordered::{
    NULL, PRESENT, number, put_escaped, put_number, take, take_escaped,
};
use crate::serde::format::sink::{Sink, SinkData};
use crate::serde::format::stored_column::{Shape, StoredColumn};

/// Appends the cell of a row.
pub fn put(out: &mut Vec<u8>, cells: &Cells, column: &StoredColumn, row: usize, as_key: bool) {
    match (&cells.data, &column.shape) {
        (CellData::Bool(bits), _) => out.push(bits.value(row).into()),
        (data @ CellData::Fixed(..), Shape::Fixed(_, order)) => {
            put_number(out, data.bytes(row), *order, as_key)
        }
        (data @ CellData::Bytes(..), _) => out.extend_from_slice(data.bytes(row)),
        (CellData::Struct(fields), Shape::Struct(columns)) => put_fields(out, fields, columns, row),
        // `StoredColumn::check_key` refuses lists.
        _ => {}
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &[Cells], columns: &[StoredColumn], row: usize) {
    for (cells, column) in fields.iter().zip(columns) {
        if !cells.is_valid(row) {
            out.push(NULL);
            continue;
        }
        out.push(PRESENT);
        match &cells.data {
            data @ CellData::Bytes(..) => put_escaped(out, data.bytes(row)),
            _ => put(out, cells, column, row, true),
        }
    }
}

/// Decodes the bytes as one cell of the column's type and appends it to `sink`.
///
/// # Errors
/// `Serialization` if the bytes are not such a cell.
pub fn read(mut input: &[u8], column: &StoredColumn, sink: &mut Sink) -> Result<()> {
    match &mut sink.data {
        SinkData::Bytes(_, bytes) => {
            bytes.extend_from_slice(input);
            return sink.end(0);
        }
        _ => take_cell(&mut input, column, sink)?,
    }
    if input.is_empty() {
        Ok(())
    } else {
        Err(Error::new(
            ErrorKind::Serialization,
            format!("{} bytes are left over", input.len()),
        ))
    }
}

fn take_cell(input: &mut &[u8], column: &StoredColumn, sink: &mut Sink) -> Result<()> {
    match (&mut sink.data, &column.shape) {
        (SinkData::Bool(_), _) => match take(input, 1)? {
            [0] => sink.push_bool(false),
            [1] => sink.push_bool(true),
            _ => {
                return Err(Error::new(
                    ErrorKind::Serialization,
                    "a boolean in it is neither 0 nor 1",
                ));
            }
        },
        (SinkData::Fixed(..), Shape::Fixed(width, order)) => {
            sink.push_number(&number(take(input, *width)?, *order)[..*width])
        }
        (SinkData::Bytes(_, bytes), _) => {
            take_escaped(input, bytes)?;
            sink.end(0)?;
        }
        (SinkData::Struct(fields), Shape::Struct(columns)) => {
            for (field, column) in fields.iter_mut().zip(columns) {
                match take(input, 1)? {
                    [PRESENT] => take_cell(input, column, field)?,
                    [NULL] if column.nullable => field.push_null(),
                    _ => {
                        return Err(Error::new(
                            ErrorKind::Serialization,
                            format!("field {} begins with an invalid byte", column.name),
                        ));
                    }
                }
            }
            sink.end(0)?;
        }
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "a list cannot be part of a key",
            ));
        }
    }
    Ok(())
}
