//! The partition of a key: Spark's `pmod(xxhash64(key columns), partitions)`, as in the plan of an
//! operator (`docs/design/spark-plan.md`).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh64::xxh64;

use crate::protocol::PartitionId;

/// The seed of Spark's `xxhash64`.
const SEED: u64 = 42;
/// Decimals up to this precision are hashed as a 64-bit integer.
const LONG_DECIMAL: u8 = 18;

/// Returns the partition of each row of key columns.
///
/// # Errors
/// `InvalidType` for a column of a type that Spark cannot hash, or that is not a type of a key.
pub fn partitions_of(keys: &[ArrayRef], rows: usize, partitions: u32) -> Result<Vec<PartitionId>> {
    let mut hashes = vec![SEED; rows];
    for column in keys {
        for (row, hash) in hashes.iter_mut().enumerate() {
            *hash = hash_value(column, row, *hash)?;
        }
    }
    let count = i64::from(partitions.max(1));
    let partition = |hash: &u64| {
        let partition = (*hash as i64).rem_euclid(count);
        PartitionId(i32::try_from(partition).unwrap_or(0))
    };
    Ok(hashes.iter().map(partition).collect())
}

/// Hashes one value with a seed; null keeps the seed.
fn hash_value(column: &ArrayRef, row: usize, seed: u64) -> Result<u64> {
    if column.is_null(row) {
        return Ok(seed);
    }
    let int = |value: i32| xxh64(&value.to_le_bytes(), seed);
    let long = |value: i64| xxh64(&value.to_le_bytes(), seed);
    Ok(match column.data_type() {
        DataType::Null => seed,
        DataType::Boolean => int(i32::from(column.as_boolean().value(row))),
        DataType::Int8 => int(column.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => int(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => int(column.as_primitive::<Int32Type>().value(row)),
        DataType::Date32 => int(column.as_primitive::<Date32Type>().value(row)),
        DataType::Int64 => long(column.as_primitive::<Int64Type>().value(row)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            long(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            long(column.as_primitive::<DurationMicrosecondType>().value(row))
        }
        DataType::Interval(IntervalUnit::YearMonth) => int(column
            .as_primitive::<arrow_array::types::IntervalYearMonthType>()
            .value(row)),
        // Keys have one zero and one NaN (`codec/float.rs`). Their bits are the same in Java.
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            int(if value == 0.0 { 0.0_f32 } else { value }.to_bits() as i32)
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            long(if value == 0.0 { 0.0_f64 } else { value }.to_bits() as i64)
        }
        DataType::Decimal128(precision, _) => {
            let value = column.as_primitive::<Decimal128Type>().value(row);
            match i64::try_from(value) {
                Ok(value) if *precision <= LONG_DECIMAL => long(value),
                _ => xxh64(shortest(&value.to_be_bytes()), seed),
            }
        }
        DataType::Utf8 => xxh64(column.as_string::<i32>().value(row).as_bytes(), seed),
        DataType::LargeUtf8 => xxh64(column.as_string::<i64>().value(row).as_bytes(), seed),
        DataType::Binary => xxh64(column.as_binary::<i32>().value(row), seed),
        DataType::LargeBinary => xxh64(column.as_binary::<i64>().value(row), seed),
        DataType::Struct(_) => {
            let mut fields = column.as_struct().columns().iter();
            fields.try_fold(seed, |hash, field| hash_value(field, row, hash))?
        }
        DataType::List(_) => {
            let elements = column.as_list::<i32>().value(row);
            let rows = 0..elements.len();
            rows.into_iter()
                .try_fold(seed, |hash, row| hash_value(&elements, row, hash))?
        }
        other => {
            let text = format!("a key column has type {other}, which no key may have");
            return Err(Error::new(ErrorKind::InvalidType, text));
        }
    })
}

/// The shortest bytes that mean the same number, at least one: Java's `BigInteger.toByteArray`.
fn shortest(bytes: &[u8]) -> &[u8] {
    let is_sign =
        |first: u8, next: u8| first == 0 && next & 0x80 == 0 || first == 0xFF && next & 0x80 != 0;
    let extra = bytes
        .windows(2)
        .take_while(|pair| is_sign(pair[0], pair[1]))
        .count();
    &bytes[extra..]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, Int64Array, StringArray};

    use super::*;

    /// `select xxhash64(…)` in Spark 4.3.
    #[test]
    fn hashes_equal_those_of_spark() {
        let of = |columns: &[ArrayRef]| {
            let hash = columns
                .iter()
                .try_fold(SEED, |hash, column| hash_value(column, 0, hash));
            hash.expect("hashable") as i64
        };
        let string: ArrayRef = Arc::new(StringArray::from(vec!["Spark"]));
        assert_eq!(
            of(std::slice::from_ref(&string)),
            -4_294_468_057_691_064_905
        );
        let columns: [ArrayRef; 3] = [
            string,
            Arc::new(Int32Array::from(vec![None])),
            Arc::new(Int64Array::from(vec![2])),
        ];
        assert_eq!(
            of(&columns),
            of(&[Arc::clone(&columns[0]), Arc::clone(&columns[2])])
        );
    }

    #[test]
    fn numbers_have_as_few_bytes_as_in_java() {
        let cases: [(i128, &[u8]); 6] = [
            (0, &[0]),
            (-1, &[0xFF]),
            (127, &[127]),
            (128, &[0, 128]),
            (-128, &[0x80]),
            (-129, &[0xFF, 0x7F]),
        ];
        for (number, bytes) in cases {
            assert_eq!(shortest(&number.to_be_bytes()), bytes, "{number}");
        }
    }
}
