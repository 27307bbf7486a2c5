//! One value between Python and a serde.

use arrow_schema::DataType;
use holdfast_core::serde::{FieldValue, Scalar};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// Converts a Python value to a scalar of `data_type`.
pub fn scalar_from_python<'a>(
    value: &'a Bound<'_, PyAny>,
    data_type: &DataType,
) -> PyResult<Scalar<'a>> {
    let wanted = match data_type {
        DataType::Boolean => {
            if let Ok(value) = value.cast::<PyBool>() {
                return Ok(Scalar::Bool(value.is_true()));
            }
            "bool"
        }
        DataType::Int64 | DataType::Timestamp(..) => {
            if !value.is_instance_of::<PyBool>() && value.hasattr("__index__")? {
                return value.extract().map(Scalar::Int);
            }
            "int"
        }
        DataType::Float64 => {
            let is_number = value.is_instance_of::<PyFloat>() || value.hasattr("__index__")?;
            if !value.is_instance_of::<PyBool>() && is_number {
                let float = value.extract()?;
                if !value.is_instance_of::<PyFloat>() {
                    check_whole(value, float)?;
                }
                return Ok(Scalar::Float(float));
            }
            "float"
        }
        _ => {
            if let Ok(value) = value.cast::<PyString>() {
                return value.to_str().map(Scalar::Text);
            }
            "str"
        }
    };
    Err(PyTypeError::new_err(format!(
        "{:.80} is a {}; wanted: {wanted}",
        value.repr()?.to_str()?,
        value.get_type().name()?
    )))
}
/// Converts a decoded scalar to a Python value.
pub fn scalar_to_python<'py>(py: Python<'py>, value: Scalar<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Scalar::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        Scalar::Int(value) => value.into_pyobject(py)?.into_any(),
        Scalar::Float(value) => PyFloat::new(py, value).into_any(),
        Scalar::Text(value) => PyString::new(py, value).into_any(),
    })
}

/// Fails if a float cannot hold an integer exactly. A struct's fields refuse such integers, too.
fn check_whole(value: &Bound<'_, PyAny>, float: f64) -> PyResult<()> {
    let py = value.py();
    // Python's integers compare exactly with floats; numpy's are converted to floats first.
    let exact = value.call_method0(intern!(py, "__index__"))?;
    if exact.eq(float)? {
        return Ok(());
    }
    Err(PyOverflowError::new_err(format!(
        "no float equals this integer; the nearest is {}",
        PyFloat::new(py, float).repr()?
    )))
}

/// Converts a value of a struct's field; `None` for a value that pyarrow must convert or reject.
pub fn field_from_python<'a>(value: &'a Bound<'_, PyAny>) -> Option<FieldValue<'a>> {
    if value.is_none() {
        Some(FieldValue::Null)
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        text.to_str().ok().map(|text| FieldValue::Text(text.into()))
    } else if let Ok(float) = value.cast_exact::<PyFloat>() {
        Some(FieldValue::Float(float.value()))
    } else if let Ok(int) = value.cast_exact::<PyInt>() {
        int.extract().ok().map(FieldValue::Int)
    } else if let Ok(bool) = value.cast_exact::<PyBool>() {
        Some(FieldValue::Bool(bool.is_true()))
    } else {
        value
            .cast_exact::<PyBytes>()
            .ok()
            .map(|bytes| FieldValue::Binary(bytes.as_bytes().into()))
    }
}

/// Converts a decoded value of a struct's field.
pub fn field_to_python<'py>(py: Python<'py>, value: FieldValue<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        FieldValue::Null => py.None().into_bound(py),
        FieldValue::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        FieldValue::Int(value) => value.into_pyobject(py)?.into_any(),
        FieldValue::Float(value) => PyFloat::new(py, value).into_any(),
        FieldValue::Text(text) => PyString::new(py, &text).into_any(),
        FieldValue::Binary(bytes) => PyBytes::new(py, &bytes).into_any(),
    })
}
