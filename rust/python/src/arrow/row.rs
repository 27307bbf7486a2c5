//! Converts one row between Python's values and Arrow without pyarrow, whose objects cost more than
//! the read of one key.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use std::sync::Arc;

/// The name of a column and its value.
pub type NamedValue<'py> = (PyBackedStr, Bound<'py, PyAny>);

/// Makes a batch of one row. `None` if the columns are not those of `fields`, or if a value must go
/// to pyarrow, which converts or rejects it.
pub fn row_from_python(row: &[NamedValue<'_>], fields: &[Field]) -> Option<RecordBatch> {
    if row.len() != fields.len() {
        return None;
    }
    let columns = row.iter().zip(fields).map(|((name, value), field)| {
        if **name != **field.name() {
            return None;
        }
        column_of(value, field.data_type())
    });
    let columns: Option<Vec<ArrayRef>> = columns.collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns?).ok()
}

fn column_of(value: &Bound<'_, PyAny>, data_type: &DataType) -> Option<ArrayRef> {
    Some(match data_type {
        DataType::Boolean => {
            let value = value.cast_exact::<PyBool>().ok()?;
            Arc::new(BooleanArray::from(vec![value.is_true()]))
        }
        DataType::Int8 => integer::<Int8Type>(value)?,
        DataType::Int16 => integer::<Int16Type>(value)?,
        DataType::Int32 => integer::<Int32Type>(value)?,
        DataType::Int64 => integer::<Int64Type>(value)?,
        DataType::Float64 => {
            let value = value.cast_exact::<PyFloat>().ok()?;
            Arc::new(Float64Array::from(vec![value.value()]))
        }
        DataType::Utf8 => {
            let value = value.cast_exact::<PyString>().ok()?;
            Arc::new(StringArray::from(vec![value.to_str().ok()?]))
        }
        DataType::Binary => {
            let value = value.cast_exact::<PyBytes>().ok()?;
            Arc::new(BinaryArray::from(vec![value.as_bytes()]))
        }
        _ => return None,
    })
}

fn integer<T>(value: &Bound<'_, PyAny>) -> Option<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i64>,
{
    let value: i64 = value.cast_exact::<PyInt>().ok()?.extract().ok()?;
    let value = T::Native::try_from(value).ok()?;
    Some(Arc::new(PrimitiveArray::<T>::from_value(value, 1)))
}

/// Whether [`row_to_python`] converts values of a type.
pub fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            zone.as_deref().is_none_or(|zone| zone == "UTC")
        }
        other => {
            matches!(
                other,
                DataType::Boolean
                    | DataType::Float32
                    | DataType::Float64
                    | DataType::Utf8
                    | DataType::Binary
            ) || other.is_integer()
        }
    }
}

/// Returns columns of a batch's first row as a dict, with the same values as pyarrow. `None` if a
/// column is missing, or if only pyarrow can convert its value.
pub fn row_to_python<'py, 'a>(
    py: Python<'py>,
    batch: &RecordBatch,
    names: impl Iterator<Item = &'a str>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let row = PyDict::new(py);
    for name in names {
        let column = batch.column_by_name(name);
        let Some(value) = column.map(|column| value_of(py, column)).transpose()? else {
            return Ok(None);
        };
        let Some(value) = value else {
            return Ok(None);
        };
        row.set_item(name, value)?;
    }
    Ok(Some(row))
}

fn value_of<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !is_plain(column.data_type()) {
        return Ok(None);
    }
    if column.is_null(0) {
        return Ok(Some(py.None().into_bound(py)));
    }
    let value = match column.data_type() {
        DataType::Boolean => PyBool::new(py, column.as_boolean().value(0))
            .to_owned()
            .into_any(),
        DataType::Int8 => number::<Int8Type>(py, column)?,
        DataType::Int16 => number::<Int16Type>(py, column)?,
        DataType::Int32 => number::<Int32Type>(py, column)?,
        DataType::Int64 => number::<Int64Type>(py, column)?,
        DataType::UInt8 => number::<UInt8Type>(py, column)?,
        DataType::UInt16 => number::<UInt16Type>(py, column)?,
        DataType::UInt32 => number::<UInt32Type>(py, column)?,
        DataType::UInt64 => number::<UInt64Type>(py, column)?,
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(0);
            PyFloat::new(py, f64::from(value)).into_any()
        }
        DataType::Float64 => {
            PyFloat::new(py, column.as_primitive::<Float64Type>().value(0)).into_any()
        }
        DataType::Utf8 => PyString::new(py, column.as_string::<i32>().value(0)).into_any(),
        DataType::Binary => PyBytes::new(py, column.as_binary::<i32>().value(0)).into_any(),
        DataType::Timestamp(_, zone) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>().value(0);
            return timestamp(py, micros, zone.is_some());
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn number<'py, T>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>>
where
    T: ArrowPrimitiveType,
    i128: From<T::Native>,
{
    let value = i128::from(column.as_primitive::<T>().value(0));
    // Almost all numbers fit 64 bits, whose conversion is faster.
    Ok(match i64::try_from(value) {
        Ok(value) => value.into_pyobject(py)?.into_any(),
        Err(_) => value.into_pyobject(py)?.into_any(),
    })
}

/// Returns a datetime, in UTC or without a zone. `None` for a time that `datetime` cannot
/// represent.
fn timestamp(py: Python<'_>, micros: i64, is_utc: bool) -> PyResult<Option<Bound<'_, PyAny>>> {
    static EPOCHS: PyOnceLock<[Py<PyAny>; 3]> = PyOnceLock::new();
    let [naive, utc, timedelta] = EPOCHS.get_or_try_init(py, || {
        let module = py.import("datetime")?;
        let zone = py.import("zoneinfo")?.call_method1("ZoneInfo", ("UTC",))?;
        let naive = module.call_method1("datetime", (1970, 1, 1))?;
        let with_zone = PyDict::new(py);
        with_zone.set_item("tzinfo", zone)?;
        let utc = naive.call_method("replace", (), Some(&with_zone))?;
        let timedelta = module.getattr("timedelta")?;
        PyResult::Ok([naive.unbind(), utc.unbind(), timedelta.unbind()])
    })?;
    let epoch = if is_utc { utc } else { naive };
    let since = timedelta.bind(py).call1((0, 0, micros))?;
    match epoch
        .bind(py)
        .call_method1(intern!(py, "__add__"), (since,))
    {
        Ok(time) => Ok(Some(time)),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}
