//! Arrow arrays that are being built, cell by cell.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::stored_column::{Shape, StoredColumn};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, StringArray, StructArray,
    make_array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// A column that is being filled.
pub struct Sink {
    data_type: DataType,
    nulls: NullBufferBuilder,
    /// The cells so far.
    pub data: SinkData,
}

/// The cells of a column that is being filled.
pub enum SinkData {
    /// Booleans.
    Bool(BooleanBufferBuilder),
    /// Numbers, little-endian, of one width.
    Fixed(MutableBuffer, usize),
    /// The end of each cell, and the bytes of all strings or binaries.
    Bytes(Vec<i32>, Vec<u8>),
    /// The columns of a struct.
    Struct(Vec<Sink>),
    /// The end of each list, the number of items, and the items.
    List(Vec<i32>, usize, Box<Sink>),
}

impl Sink {
    /// Returns an empty column with room for `rows`.
    pub fn new(column: &StoredColumn, rows: usize) -> Self {
        let data = match &column.shape {
            Shape::Bool => SinkData::Bool(BooleanBufferBuilder::new(rows)),
            Shape::Fixed(width, _) => {
                SinkData::Fixed(MutableBuffer::with_capacity(rows * width), *width)
            }
            Shape::Bytes => SinkData::Bytes(starts(rows), Vec::new()),
            Shape::Struct(columns) => SinkData::Struct(
                columns
                    .iter()
                    .map(|column| Self::new(column, rows))
                    .collect(),
            ),
            Shape::List(item) => SinkData::List(starts(rows), 0, Box::new(Self::new(item, rows))),
        };
        Self {
            data_type: column.data_type.clone(),
            nulls: NullBufferBuilder::new(rows),
            data,
        }
    }

    /// Appends a null.
    pub fn push_null(&mut self) {
        self.nulls.append_null();
        match &mut self.data {
            SinkData::Bool(bits) => bits.append(false),
            SinkData::Fixed(bytes, width) => bytes.extend_zeros(*width),
            SinkData::Bytes(ends, _) | SinkData::List(ends, ..) => {
                ends.push(ends.last().copied().unwrap_or(0))
            }
            SinkData::Struct(columns) => columns.iter_mut().for_each(Self::push_null),
        }
    }

    /// Appends a boolean.
    pub fn push_bool(&mut self, value: bool) {
        if let SinkData::Bool(bits) = &mut self.data {
            bits.append(value);
            self.nulls.append_non_null();
        }
    }

    /// Appends a number of the column's width.
    #[inline]
    pub fn push_number(&mut self, cell: &[u8]) {
        if let SinkData::Fixed(bytes, _) = &mut self.data {
            bytes.extend_from_slice(cell);
            self.nulls.append_non_null();
        }
    }

    /// Ends a cell after its content was appended: the bytes of a string or binary, the fields of a
    /// struct, or the `items` of a list.
    ///
    /// # Errors
    /// `Serialization` for a string that is not UTF-8, `InvalidValue` if the column has become too
    /// large for Arrow.
    pub fn end(&mut self, items: usize) -> Result<()> {
        self.nulls.append_non_null();
        match &mut self.data {
            SinkData::Bytes(ends, bytes) => {
                let start = ends.last().map_or(0, |end| *end as usize);
                if self.data_type == DataType::Utf8 && std::str::from_utf8(&bytes[start..]).is_err()
                {
                    return Err(Error::new(
                        ErrorKind::Serialization,
                        "a string in it is not UTF-8",
                    ));
                }
                ends.push(end(bytes.len())?);
            }
            SinkData::List(ends, count, _) => {
                *count += items;
                ends.push(end(*count)?);
            }
            SinkData::Bool(_) | SinkData::Fixed(..) | SinkData::Struct(_) => {}
        }
        Ok(())
    }

    /// Returns the column.
    pub fn finish(mut self) -> Result<ArrayRef> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let offsets = |ends: Vec<i32>| OffsetBuffer::new(ends.into());
        let array: std::result::Result<ArrayRef, ArrowError> = match (self.data, self.data_type) {
            (SinkData::Bool(mut bits), _) => Ok(Arc::new(BooleanArray::new(bits.finish(), nulls))),
            (SinkData::Fixed(bytes, _), data_type) => ArrayData::builder(data_type)
                .len(rows)
                .add_buffer(bytes.into())
                .nulls(nulls)
                .build()
                .map(make_array),
            (SinkData::Bytes(ends, bytes), DataType::Utf8) => {
                StringArray::try_new(offsets(ends), Buffer::from_vec(bytes), nulls)
                    .map(|array| Arc::new(array) as ArrayRef)
            }
            (SinkData::Bytes(ends, bytes), _) => {
                BinaryArray::try_new(offsets(ends), Buffer::from_vec(bytes), nulls)
                    .map(|array| Arc::new(array) as ArrayRef)
            }
            (SinkData::Struct(columns), DataType::Struct(fields)) => {
                let columns = columns
                    .into_iter()
                    .map(Self::finish)
                    .collect::<Result<Vec<_>>>()?;
                StructArray::try_new_with_length(fields, columns, nulls, rows)
                    .map(|array| Arc::new(array) as ArrayRef)
            }
            (SinkData::List(ends, _, items), DataType::Map(entries, sorted)) => {
                let items = items.finish()?;
                let items = items
                    .as_any()
                    .downcast_ref::<StructArray>()
                    .cloned()
                    .ok_or_else(not_a_column)?;
                MapArray::try_new(entries, offsets(ends), items, nulls, sorted)
                    .map(|array| Arc::new(array) as ArrayRef)
            }
            (SinkData::List(ends, _, items), DataType::List(item)) => {
                ListArray::try_new(item, offsets(ends), items.finish()?, nulls)
                    .map(|array| Arc::new(array) as ArrayRef)
            }
            _ => return Err(not_a_column()),
        };
        array.map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("the stored rows do not fit their columns: {error}"),
            )
        })
    }
}

fn starts(rows: usize) -> Vec<i32> {
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0);
    ends
}

fn end(bytes: usize) -> Result<i32> {
    i32::try_from(bytes).map_err(|_| {
        Error::new(
            ErrorKind::InvalidValue,
            "a column of this batch is larger than an Arrow column can be (2 GiB of bytes, or 2^31 \
             items of lists); ask for fewer rows",
        )
    })
}

fn not_a_column() -> Error {
    Error::new(ErrorKind::InvalidState, "a column and its type do not fit")
}
