//! Errors of the engine as Python exceptions, chosen by the name of their kind.

use holdfast_core::{Error, ErrorKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Returns the exception for an error of the engine.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::InvalidValue => PyValueError::new_err(message),
        ErrorKind::InvalidType => PyTypeError::new_err(message),
        ErrorKind::Io | ErrorKind::InvalidState => holdfast_error(py, "Holdfast", message),
        // The kind has an older name on the wire.
        ErrorKind::StateMismatch => holdfast_error(py, "StateMismatch", message),
        kind => holdfast_error(py, kind.name(), message),
    }
}

/// Returns an exception of `holdfast.errors`; `kind` is its class without the `Error` at the end.
pub fn holdfast_error(py: Python<'_>, kind: &str, message: String) -> PyErr {
    let class = py
        .import("holdfast.errors")
        .and_then(|module| module.getattr(format!("{kind}Error")))
        .and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from));
    match class {
        Ok(class) => PyErr::from_type(class, (message,)),
        // An interpreter that is shutting down can no longer import.
        Err(error) => error,
    }
}
