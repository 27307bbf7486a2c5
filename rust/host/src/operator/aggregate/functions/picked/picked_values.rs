//! The accumulator of a function that picks one value, by the type of the column.

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type,
};
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::Result;

use super::pick::Pick;
use super::picked_bytes::PickedBytes;
use super::picked_numbers::PickedNumbers;
use crate::operator::aggregate::functions::accumulator::Accumulator;

/// Returns the accumulator of a function over a column of this field.
///
/// # Errors
/// `InvalidType` for a column whose values cannot be stored.
pub fn picked_values(pick: Pick, field: &Field) -> Result<Box<dyn Accumulator>> {
    fn of<T: ArrowPrimitiveType>(pick: Pick, field: &Field) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(PickedNumbers::<T>::new(pick, field)?))
    }
    match field.data_type() {
        DataType::Boolean => of::<UInt8Type>(pick, field),
        DataType::Int8 => of::<Int8Type>(pick, field),
        DataType::Int16 => of::<Int16Type>(pick, field),
        DataType::Int32 => of::<Int32Type>(pick, field),
        DataType::Int64 => of::<Int64Type>(pick, field),
        DataType::Float32 => of::<Float32Type>(pick, field),
        DataType::Float64 => of::<Float64Type>(pick, field),
        DataType::Date32 => of::<Date32Type>(pick, field),
        DataType::Decimal128(..) => of::<Decimal128Type>(pick, field),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            of::<TimestampMicrosecondType>(pick, field)
        }
        DataType::Duration(TimeUnit::Microsecond) => of::<DurationMicrosecondType>(pick, field),
        _ => Ok(Box::new(PickedBytes::new(pick, field)?)),
    }
}
