//! Columns of strings and JSON texts. Their stored bytes are Arrow's.

use crate::column::bytes_column;
use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::cells::{check_utf8, wrong_type};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;
use arrow_select::nullif::nullif;
use std::sync::Arc;

/// Checks that a column has strings (JSON texts if `json`) and returns it.
///
/// The JSON text `null` becomes null, as None does when values are encoded one at a time.
pub fn check(array: ArrayRef, json: bool, what: &str) -> Result<ArrayRef> {
    let is_text = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    match array.data_type() {
        DataType::Null => return Ok(arrow_array::new_null_array(&DataType::Utf8, array.len())),
        found if is_text(found) => {}
        DataType::Dictionary(_, values) if is_text(values) => {}
        found => {
            return Err(wrong_type(
                found,
                if json { "Utf8, of JSON texts" } else { "Utf8" },
                what,
            ));
        }
    }
    check_utf8(array.as_ref(), what)?;
    if json {
        let texts = bytes_column(array.as_ref(), what)?;
        let mut nulls = BooleanBufferBuilder::new(array.len());
        for row in 0..array.len() {
            let text = texts.get(row);
            if let Some(text) = text {
                check_json(text).map_err(|error| {
                    Error::new(
                        ErrorKind::Serialization,
                        format!("row {row} of {what} is not JSON: {error}"),
                    )
                })?;
            }
            nulls.append(text.is_some_and(|text| text.trim_ascii() == b"null"));
        }
        let nulls = BooleanArray::from(nulls.finish());
        if nulls.has_true() {
            return nullif(array.as_ref(), &nulls).map_err(|error| {
                Error::new(ErrorKind::InvalidState, format!("column {what}: {error}"))
            });
        }
    }
    Ok(array)
}

fn check_json(text: &[u8]) -> std::result::Result<(), serde_json::Error> {
    serde_json::from_slice::<::serde::de::IgnoredAny>(text).map(drop)
}

/// Decodes a column of strings.
pub fn decode(array: &ArrayRef) -> Result<ArrayRef> {
    let bad =
        |error: arrow_schema::ArrowError| Error::new(ErrorKind::Serialization, error.to_string());
    let array = match array.data_type() {
        DataType::Binary => array.clone(),
        _ => arrow_cast::cast(array, &DataType::Binary).map_err(bad)?,
    };
    let strings = StringArray::try_from_binary(array.as_binary().clone()).map_err(bad)?;
    Ok(Arc::new(strings))
}
