//! Arrow in and out of the engine's batch calls, which take and give plain slices and know nothing
//! of Arrow.
//!
//! Here columns of bytes as slices, whatever their layout. `found.rs` what look-ups found, in the
//! order in which they were asked · `scan.rs` rows of key and value · `version.rs` versions ·
//! `windowed.rs` windows and sessions.

mod found;
mod scan;
mod version;
mod windowed;

pub use found::Places;
pub use scan::{key_value_batch, key_value_schema, stamped_batch, stamped_schema};
pub use version::{VersionColumns, version_batch, version_schema};
pub use windowed::{SESSION, WINDOW, WindowedColumns};

use crate::error::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray,
    LargeBinaryArray,
};
use arrow_array::{LargeStringArray, RecordBatch, StringArray, StringViewArray};
use arrow_schema::{DataType, SchemaRef};

/// A column of bytes, borrowed: binary or string, large, view, fixed-size or dictionary.
pub enum BytesColumn<'a> {
    /// 32-bit offsets.
    Binary(&'a BinaryArray),
    /// 64-bit offsets.
    LargeBinary(&'a LargeBinaryArray),
    /// Views.
    BinaryView(&'a BinaryViewArray),
    /// One width.
    FixedSize(&'a FixedSizeBinaryArray),
    /// UTF-8, 32-bit offsets.
    String(&'a StringArray),
    /// UTF-8, 64-bit offsets.
    LargeString(&'a LargeStringArray),
    /// UTF-8, views.
    StringView(&'a StringViewArray),
    /// Positions into distinct values; `None` is null.
    Dictionary(Vec<Option<usize>>, Box<BytesColumn<'a>>),
}

/// Sees an Arrow array as a column of bytes; `what` names the column in the error for a type that
/// is none.
///
/// # Errors
/// `InvalidType`.
pub fn bytes_column<'a>(array: &'a dyn Array, what: &str) -> Result<BytesColumn<'a>> {
    Ok(match array.data_type() {
        DataType::Binary => BytesColumn::Binary(array.as_binary()),
        DataType::LargeBinary => BytesColumn::LargeBinary(array.as_binary()),
        DataType::BinaryView => BytesColumn::BinaryView(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => BytesColumn::FixedSize(array.as_fixed_size_binary()),
        DataType::Utf8 => BytesColumn::String(array.as_string()),
        DataType::LargeUtf8 => BytesColumn::LargeString(array.as_string()),
        DataType::Utf8View => BytesColumn::StringView(array.as_string_view()),
        DataType::Dictionary(key, _) => match key.as_ref() {
            DataType::Int8 => dictionary(array.as_dictionary::<Int8Type>(), what)?,
            DataType::Int16 => dictionary(array.as_dictionary::<Int16Type>(), what)?,
            DataType::Int32 => dictionary(array.as_dictionary::<Int32Type>(), what)?,
            DataType::Int64 => dictionary(array.as_dictionary::<Int64Type>(), what)?,
            DataType::UInt8 => dictionary(array.as_dictionary::<UInt8Type>(), what)?,
            DataType::UInt16 => dictionary(array.as_dictionary::<UInt16Type>(), what)?,
            DataType::UInt32 => dictionary(array.as_dictionary::<UInt32Type>(), what)?,
            DataType::UInt64 => dictionary(array.as_dictionary::<UInt64Type>(), what)?,
            _ => return Err(wrong_type(array.data_type(), what)),
        },
        other => return Err(wrong_type(other, what)),
    })
}

fn wrong_type(found: &DataType, what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidType,
        format!(
            "column {what} has Arrow type {found}; wanted binary or string (large, view and \
             dictionary forms included)"
        ),
    )
}

fn dictionary<'a, K: ArrowDictionaryKeyType>(
    array: &'a DictionaryArray<K>,
    what: &str,
) -> Result<BytesColumn<'a>> {
    let values: &'a ArrayRef = array.values();
    let column = bytes_column(values.as_ref(), what)?;
    Ok(BytesColumn::Dictionary(
        array.keys_iter().collect(),
        Box::new(column),
    ))
}

impl<'a> BytesColumn<'a> {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Binary(array) => array.len(),
            Self::LargeBinary(array) => array.len(),
            Self::BinaryView(array) => array.len(),
            Self::FixedSize(array) => array.len(),
            Self::String(array) => array.len(),
            Self::LargeString(array) => array.len(),
            Self::StringView(array) => array.len(),
            Self::Dictionary(keys, _) => keys.len(),
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a row; `None` is null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::LargeBinary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::BinaryView(array) => array.is_valid(row).then(|| array.value(row)),
            Self::FixedSize(array) => array.is_valid(row).then(|| array.value(row)),
            Self::String(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::LargeString(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::StringView(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::Dictionary(keys, values) => keys[row].and_then(|key| values.get(key)),
        }
    }
}

/// Bytes after which a batch of a scan ends, whatever its rows: far below what a binary column can
/// hold.
const BATCH_BYTES: usize = 64 << 20;

/// Fails where one binary column could not hold the bytes.
fn check_size(bytes: usize) -> Result<()> {
    if i32::try_from(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidValue,
        format!(
            "the values of this batch are {bytes} bytes together, more than an Arrow binary \
             column holds (2 GiB); ask for fewer keys"
        ),
    ))
}

/// A batch of columns that are known to fit together.
///
/// # Errors
/// `InvalidState` where they do not.
pub fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(schema, columns)
        .map_err(|error| Error::new(ErrorKind::InvalidState, error.to_string()))
}
