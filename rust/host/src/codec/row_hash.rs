//! Hashes of rows, which show whether rows are equal. They cost less than an encoding of the rows,
//! which is also a copy of them and has their order.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, Field};
use holdfast_core::Result;
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::row::RowCodec;

/// The hash of a row without columns. This number and the next ones are arbitrary.
const EMPTY: u64 = 0x9e37_79b9_7f4a_7c15;
/// What a hash is multiplied by; an odd number.
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
/// What a null adds to a hash.
const NULL: u64 = 0xa076_1d64_78bd_642f;

/// Returns a hash of each row of some columns. It depends only on the row's values, so it is the
/// same in every process. Floats are equal if their bits are.
///
/// # Errors
/// `InvalidType` or `Serialization` for values that cannot be encoded.
pub fn row_hashes(columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
    let mut hashes = vec![EMPTY; rows];
    for column in columns {
        add_column(column, &mut hashes)?;
    }
    Ok(hashes)
}

/// Adds a column to the hashes of its rows.
fn add_column(column: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean();
            add(column, hashes, |row| u64::from(values.value(row)));
        }
        DataType::Utf8 => add_bytes::<Utf8Type>(column, hashes),
        DataType::LargeUtf8 => add_bytes::<LargeUtf8Type>(column, hashes),
        DataType::Binary => add_bytes::<BinaryType>(column, hashes),
        DataType::LargeBinary => add_bytes::<LargeBinaryType>(column, hashes),
        // Intervals are not aligned as the numbers of their width are.
        other => match other.primitive_width().filter(|_| !is_interval(other)) {
            Some(1) => add_numbers(column, hashes, |number: i8| number as u64),
            Some(2) => add_numbers(column, hashes, |number: i16| number as u64),
            Some(4) => add_numbers(column, hashes, |number: i32| number as u64),
            Some(8) => add_numbers(column, hashes, |number: i64| number as u64),
            Some(16) => {
                add_numbers(column, hashes, |number: i128| number as u64);
                add_numbers(column, hashes, |number: i128| (number >> 64) as u64);
            }
            _ => {
                let field = Field::new("column", other.clone(), true);
                let encoded = RowCodec::new([&field])?.encode(&[ArrayRef::clone(column)])?;
                add_all(hashes, |row| xxh3_64(encoded.get(row)));
            }
        },
    }
    Ok(())
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// Adds a column of numbers of a fixed width, given their type as a native integer of this width.
fn add_numbers<T: ArrowNativeType>(column: &ArrayRef, hashes: &mut [u64], word: impl Fn(T) -> u64) {
    let data = column.to_data();
    let numbers = &data.buffer::<T>(0)[..hashes.len()];
    add(column, hashes, |row| word(numbers[row]));
}

fn add_bytes<T: ByteArrayType>(column: &ArrayRef, hashes: &mut [u64]) {
    let values = column.as_bytes::<T>();
    add(column, hashes, |row| {
        xxh3_64(AsRef::<[u8]>::as_ref(values.value(row)))
    });
}

/// Adds a word for each row, and [`NULL`] for nulls.
fn add(column: &ArrayRef, hashes: &mut [u64], word: impl Fn(usize) -> u64) {
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => add_all(hashes, word),
        Some(nulls) => add_all(
            hashes,
            |row| {
                if nulls.is_null(row) { NULL } else { word(row) }
            },
        ),
    }
}

fn add_all(hashes: &mut [u64], word: impl Fn(usize) -> u64) {
    for (row, hash) in hashes.iter_mut().enumerate() {
        let product = u128::from(*hash ^ word(row)) * u128::from(FACTOR);
        // Both halves depend on all bits, the upper one more on the lower bits.
        *hash = (product as u64) ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Decimal128Type;
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Float64Array, Int8Array, Int16Array, Int64Array,
        ListArray, PrimitiveArray, StringArray,
    };
    use arrow_select::concat::concat;
    use proptest::prelude::*;

    use super::*;

    /// A column of each kind. Its values are equal if the given numbers are.
    fn columns(numbers: &[Option<i8>]) -> Vec<ArrayRef> {
        let given = || numbers.iter().copied();
        let text = |number: i8| format!("a text of more than sixteen bytes, {number}");
        let decimals: PrimitiveArray<Decimal128Type> = given()
            .map(|number| number.map(|number| i128::from(number) << 70))
            .collect();
        vec![
            Arc::new(given().collect::<Int8Array>()),
            Arc::new(given().map(|n| n.map(i16::from)).collect::<Int16Array>()),
            Arc::new(given().map(|n| n.map(i32::from)).collect::<Date32Array>()),
            Arc::new(given().map(|n| n.map(i64::from)).collect::<Int64Array>()),
            Arc::new(given().map(|n| n.map(f64::from)).collect::<Float64Array>()),
            Arc::new(decimals),
            Arc::new(given().map(|n| n.map(text)).collect::<StringArray>()),
            Arc::new(
                given()
                    .map(|n| n.map(|n| [n as u8]))
                    .collect::<BinaryArray>(),
            ),
            Arc::new(ListArray::from_iter_primitive::<
                arrow_array::types::Int64Type,
                _,
                _,
            >(
                given().map(|n| n.map(|n| vec![Some(i64::from(n)), None]))
            )),
        ]
    }

    fn hash(columns: &[ArrayRef]) -> Vec<u64> {
        row_hashes(columns, columns[0].len()).expect("supported types")
    }

    #[test]
    fn nulls_are_hashed_without_the_bytes_in_their_place() {
        let nulls = || Some(vec![true, false].into());
        let column =
            |numbers: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::new(numbers.into(), nulls())) };
        assert_eq!(hash(&[column(vec![1, 2])]), hash(&[column(vec![1, 3])]));
        let sides: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
        let hashes = hash(&[sides]);
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
    }

    #[test]
    fn values_that_change_their_columns_or_rows_change_the_hashes() {
        let column =
            |numbers: [i64; 2]| -> ArrayRef { Arc::new(Int64Array::from_iter_values(numbers)) };
        let sum = |columns: [[i64; 2]; 2]| -> u128 {
            hash(&columns.map(column)).into_iter().map(u128::from).sum()
        };
        let of_rows = sum([[1, 2], [3, 4]]);
        assert_eq!(of_rows, sum([[2, 1], [4, 3]]), "rows in another order");
        assert_ne!(of_rows, sum([[1, 2], [4, 3]]), "values of one column");
        assert_ne!(of_rows, sum([[3, 4], [1, 2]]), "columns");
    }

    proptest! {
        #[test]
        fn rows_have_equal_hashes_if_they_have_equal_values(
            numbers in prop::collection::vec(prop::option::of(-3..3_i8), 1..40), at in 0..40_usize,
        ) {
            let (at, whole) = (at % numbers.len(), columns(&numbers));
            // A part of a column, and a column that consists of parts.
            let parts = [columns(&numbers[..at]), columns(&numbers[at..])];
            for (n, column) in whole.iter().enumerate() {
                let hashes = hash(std::slice::from_ref(column));
                for (a, b) in (0..numbers.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    prop_assert_eq!(hashes[a] == hashes[b], numbers[a] == numbers[b]);
                }
                prop_assert_eq!(&hash(&[column.slice(at, numbers.len() - at)]), &hashes[at..]);
                let joined = concat(&[parts[0][n].as_ref(), parts[1][n].as_ref()]).expect("joined");
                prop_assert_eq!(hash(&[joined]), hashes);
            }
        }
    }
}
