//! Columns of bytes in any of their physical forms.

use crate::error::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray,
    LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow_schema::DataType;

/// A borrowed column of bytes: binary or string, large, view, fixed-size or dictionary.
pub enum BytesColumn<'a> {
    /// 32-bit offsets.
    Binary(&'a BinaryArray),
    /// 64-bit offsets.
    LargeBinary(&'a LargeBinaryArray),
    /// Binary views.
    BinaryView(&'a BinaryViewArray),
    /// Binary of one width.
    FixedSize(&'a FixedSizeBinaryArray),
    /// UTF-8, 32-bit offsets.
    String(&'a StringArray),
    /// UTF-8, 64-bit offsets.
    LargeString(&'a LargeStringArray),
    /// UTF-8, views.
    StringView(&'a StringViewArray),
    /// For each row the position of its value; `None` is null.
    Dictionary(Vec<Option<usize>>, Box<BytesColumn<'a>>),
}

/// Returns an Arrow array as a column of bytes; `what` names the column in errors.
///
/// # Errors
/// `InvalidType` for an array of another type.
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
    /// Returns the number of rows.
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

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of a row; `None` is null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
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
