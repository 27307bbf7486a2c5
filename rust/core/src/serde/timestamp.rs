//! Times as epoch microseconds, from timestamps of any unit.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::cells::wrong_type;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;

/// Returns the Arrow type of columns of times.
pub fn data_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Converts a column of timestamps of any unit and zone, or of epoch microseconds.
///
/// # Errors
/// `InvalidType` for another type, `InvalidValue` names the row of a time that does not fit 64 bits
/// of microseconds.
pub fn micros(array: &ArrayRef, what: &str) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Null => Ok(arrow_array::new_null_array(&data_type(), array.len())),
        DataType::Dictionary(_, values) => {
            let values = arrow_cast::cast(array, values).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidValue,
                    format!("column {what}: decoding a dictionary failed: {error}"),
                )
            })?;
            micros(&values, what)
        }
        DataType::Int64 => scaled::<Int64Type>(array, 1, what),
        DataType::Timestamp(TimeUnit::Second, _) => {
            scaled::<TimestampSecondType>(array, 1_000_000, what)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            scaled::<TimestampMillisecondType>(array, 1_000, what)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            scaled::<TimestampMicrosecondType>(array, 1, what)
        }
        // Rounds down: a nanosecond before 1970 is in the last microsecond of 1969.
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let micros = array
                .as_primitive::<TimestampNanosecondType>()
                .unary(|value| value.div_euclid(1_000));
            Ok(utc(micros))
        }
        found => Err(wrong_type(
            found,
            "timestamp of any unit and zone, or Int64 (epoch microseconds)",
            what,
        )),
    }
}

fn scaled<T: ArrowPrimitiveType<Native = i64>>(
    array: &ArrayRef,
    factor: i64,
    what: &str,
) -> Result<ArrayRef> {
    let times = array.as_primitive::<T>();
    let micros = times
        .try_unary::<_, TimestampMicrosecondType, _>(|value| value.checked_mul(factor).ok_or(()));
    micros.map(utc).map_err(|()| {
        let row = (0..times.len())
            .find(|row| times.is_valid(*row) && times.value(*row).checked_mul(factor).is_none());
        let message = format!(
            "row {} of {what} does not fit 64 bits of microseconds (about 292,000 years)",
            row.unwrap_or(0)
        );
        Error::new(ErrorKind::InvalidValue, message)
    })
}

fn utc(micros: PrimitiveArray<TimestampMicrosecondType>) -> ArrayRef {
    Arc::new(micros.with_timezone("UTC"))
}
