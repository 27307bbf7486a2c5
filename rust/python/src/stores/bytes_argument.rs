//! Keys and values of a store without serdes, which the package passes on as the user gives them.
//!
//! The errors are those of `Serdes` in `_stores/serdes.py`, which converts the arguments of all
//! other methods.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Returns the bytes of a key.
///
/// # Errors
/// `ValueError` for None, `TypeError` if it is not bytes.
pub fn key_bytes<'a>(key: &'a Bound<'_, PyAny>, store: &str) -> PyResult<&'a [u8]> {
    if key.is_none() {
        return Err(PyValueError::new_err(format!(
            "store {store}: the key is None; a key must have a value"
        )));
    }
    bytes(key, store, "key")
}

/// Returns the bytes of a value; None stays `None`.
///
/// # Errors
/// `TypeError` if it is neither bytes nor None.
pub fn value_bytes<'a>(value: &'a Bound<'_, PyAny>, store: &str) -> PyResult<Option<&'a [u8]>> {
    if value.is_none() {
        return Ok(None);
    }
    bytes(value, store, "value").map(Some)
}

fn bytes<'a>(item: &'a Bound<'_, PyAny>, store: &str, what: &str) -> PyResult<&'a [u8]> {
    if let Ok(bytes) = item.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let (kind, words) = (item.get_type().name()?, item.repr()?);
    let words = words.to_string_lossy();
    Err(PyTypeError::new_err(format!(
        "store {store}: the {what} is a {kind} ({words:.80}); wanted: bytes, or give the store a \
         serde ({what}=...)"
    )))
}
