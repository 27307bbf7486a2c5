//! Normalizes floats for SQL's comparisons, also inside lists, structs and maps: all NaNs are equal
//! and greater than every number, and -0.0 equals 0.0.
//!
//! arrow-row orders floats by their bits. On x86 the NaN of 0 / 0 and ∞ - ∞ has the sign bit set
//! and would sort first.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_schema::{DataType, Field};

/// Replaces every NaN by one positive NaN. The order of the bits is then SQL's order, with -0.0
/// directly before 0.0.
pub fn for_ordering(values: &ArrayRef) -> ArrayRef {
    normalized(values, ZeroSigns::Preserved)
}

/// Replaces every NaN by one NaN, and -0.0 by 0.0. Values that SQL calls equal then have equal
/// bits.
pub fn for_equality(values: &ArrayRef) -> ArrayRef {
    normalized(values, ZeroSigns::Positive)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ZeroSigns {
    Preserved,
    Positive,
}

fn normalized(values: &ArrayRef, zeros: ZeroSigns) -> ArrayRef {
    // -0.0 + 0.0 is 0.0, and -0.0 + -0.0 is -0.0.
    let zero = if zeros == ZeroSigns::Positive {
        0.0
    } else {
        -0.0
    };
    match values.data_type() {
        data_type if !has_floats(data_type) => Arc::clone(values),
        DataType::Float32 => {
            let one = |x: f32| {
                if x.is_nan() {
                    f32::NAN
                } else {
                    x + zero as f32
                }
            };
            Arc::new(
                values
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(one),
            )
        }
        DataType::Float64 => {
            let one = |x: f64| if x.is_nan() { f64::NAN } else { x + zero };
            Arc::new(
                values
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(one),
            )
        }
        DataType::List(element) => {
            let list = values.as_list::<i32>();
            let elements = normalized(list.values(), zeros);
            Arc::new(ListArray::new(
                Arc::clone(element),
                list.offsets().clone(),
                elements,
                list.nulls().cloned(),
            ))
        }
        DataType::Struct(_) => Arc::new(normalized_fields(values.as_struct(), zeros)),
        DataType::Map(entry, sorted) => {
            let map = values.as_map();
            let entries = normalized_fields(map.entries(), zeros);
            Arc::new(MapArray::new(
                Arc::clone(entry),
                map.offsets().clone(),
                entries,
                map.nulls().cloned(),
                *sorted,
            ))
        }
        _ => Arc::clone(values),
    }
}

fn normalized_fields(values: &StructArray, zeros: ZeroSigns) -> StructArray {
    let columns = values
        .columns()
        .iter()
        .map(|column| normalized(column, zeros))
        .collect();
    StructArray::new(values.fields().clone(), columns, values.nulls().cloned())
}

/// Whether values of this type have floats inside them.
pub fn are_inside(data_type: &DataType) -> bool {
    data_type.is_nested() && has_floats(data_type)
}

fn has_floats(data_type: &DataType) -> bool {
    let inner_has_floats = |field: &Arc<Field>| has_floats(field.data_type());
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(inner) | DataType::Map(inner, _) => inner_has_floats(inner),
        DataType::Struct(fields) => fields.iter().any(inner_has_floats),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{Float32Array, Float64Array, Int32Array, StringArray};
    use arrow_buffer::OffsetBuffer;

    use super::*;

    fn doubles(values: &[f64]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    /// The same floats in every nesting.
    fn nested(floats: &ArrayRef) -> Vec<ArrayRef> {
        let field =
            |name: &str, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), true));
        let each = || OffsetBuffer::from_lengths(vec![1; floats.len()]);
        let list: ArrayRef = Arc::new(ListArray::new(
            field("element", floats),
            each(),
            Arc::clone(floats),
            None,
        ));
        let names: ArrayRef = Arc::new(StringArray::from(vec!["n"; floats.len()]));
        let row: ArrayRef = Arc::new(StructArray::from(vec![
            (field("n", &names), Arc::clone(&names)),
            (field("x", &list), list.clone()),
        ]));
        let keyed = vec![
            (Arc::new(Field::new("key", DataType::Utf8, false)), names),
            (field("value", &row), Arc::clone(&row)),
        ];
        let entries = StructArray::from(keyed);
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map: ArrayRef = Arc::new(MapArray::new(entry, each(), entries, None, false));
        vec![Arc::clone(floats), list, row, map]
    }

    #[test]
    fn nans_become_equal_and_zeros_only_for_equality() {
        let given = [
            -f64::NAN,
            f64::from_bits(0xfff8_0000_0000_0001),
            -0.0,
            0.0,
            1.5,
        ];
        for (given, ordered, equal) in nested(&doubles(&given))
            .into_iter()
            .zip(nested(&doubles(&[f64::NAN, f64::NAN, -0.0, 0.0, 1.5])))
            .zip(nested(&doubles(&[f64::NAN, f64::NAN, 0.0, 0.0, 1.5])))
            .map(|((given, ordered), equal)| (given, ordered, equal))
        {
            assert_eq!(
                for_ordering(&given).to_data(),
                ordered.to_data(),
                "{}",
                given.data_type()
            );
            assert_eq!(
                for_equality(&given).to_data(),
                equal.to_data(),
                "{}",
                given.data_type()
            );
        }
    }

    #[test]
    fn nulls_and_other_types_are_unchanged() {
        let floats: ArrayRef =
            Arc::new(Float32Array::from(vec![Some(-f32::NAN), None, Some(-0.0)]));
        let equal = for_equality(&floats);
        let bits = |n: usize| equal.as_primitive::<Float32Type>().value(n).to_bits();
        assert!(equal.is_null(1) && (bits(0), bits(2)) == (f32::NAN.to_bits(), 0));
        let whole: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert_eq!(for_equality(&whole).as_primitive::<Int32Type>().value(0), 1);
    }
}
