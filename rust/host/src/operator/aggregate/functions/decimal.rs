//! Decimals in results.

use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType};

/// The greatest precision of a decimal.
pub const MAX_PRECISION: u8 = 38;

/// Returns the type in which the values of a column of decimals or intervals are added. No number
/// of rows overflows it.
pub fn exact_state(column: &DataType) -> DataType {
    let scale = match column {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale)
}

/// Widens a decimal's precision by some digits, as Spark SQL does.
pub fn wider(precision: u8, digits: u8) -> u8 {
    precision.saturating_add(digits).min(MAX_PRECISION)
}

/// Whether a decimal has at most `precision` digits.
pub fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < 10u128.pow(precision.into())
}

/// Builds an array of this type; a decimal type includes its precision and scale.
pub fn typed<T: ArrowPrimitiveType>(
    values: impl IntoIterator<Item = Option<T::Native>>,
    data_type: &DataType,
) -> ArrayRef {
    let array: PrimitiveArray<T> = values.into_iter().collect();
    Arc::new(array.with_data_type(data_type.clone()))
}
