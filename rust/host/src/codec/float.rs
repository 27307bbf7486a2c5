//! Floats as SQL compares them, wherever in a value they are: there is one NaN, which is greater
//! than all numbers, and 0.0 is -0.0.
//!
//! arrow-row orders floats by their bits. The NaN that x86 makes (0 / 0, ∞ - ∞) has the sign bit
//! set, and would be the least.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_schema::{DataType, Field};

/// The values with one NaN: what orders them by their bits orders them as SQL does (-0.0 right
/// before 0.0).
pub fn in_order(values: &ArrayRef) -> ArrayRef {
    with_floats(values, Zeros::AsTheyAre)
}

/// The values with one NaN and one zero: what SQL calls equal has equal bits.
pub fn told_apart(values: &ArrayRef) -> ArrayRef {
    with_floats(values, Zeros::One)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Zeros {
    AsTheyAre,
    One,
}

fn with_floats(values: &ArrayRef, zeros: Zeros) -> ArrayRef {
    // -0.0 + 0.0 is 0.0, and -0.0 + -0.0 is -0.0.
    let zero = if zeros == Zeros::One { 0.0 } else { -0.0 };
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
            let elements = with_floats(list.values(), zeros);
            Arc::new(ListArray::new(
                Arc::clone(element),
                list.offsets().clone(),
                elements,
                list.nulls().cloned(),
            ))
        }
        DataType::Struct(_) => Arc::new(fields(values.as_struct(), zeros)),
        DataType::Map(entry, sorted) => {
            let map = values.as_map();
            let entries = fields(map.entries(), zeros);
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

fn fields(values: &StructArray, zeros: Zeros) -> StructArray {
    let columns = values
        .columns()
        .iter()
        .map(|column| with_floats(column, zeros))
        .collect();
    StructArray::new(values.fields().clone(), columns, values.nulls().cloned())
}

fn has_floats(data_type: &DataType) -> bool {
    let within = |field: &Arc<Field>| has_floats(field.data_type());
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(inner) | DataType::Map(inner, _) => within(inner),
        DataType::Struct(fields) => fields.iter().any(within),
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
    fn nans_are_one_and_zeros_where_they_are_told_apart() {
        let given = [
            -f64::NAN,
            f64::from_bits(0xfff8_0000_0000_0001),
            -0.0,
            0.0,
            1.5,
        ];
        for (given, ordered, apart) in nested(&doubles(&given))
            .into_iter()
            .zip(nested(&doubles(&[f64::NAN, f64::NAN, -0.0, 0.0, 1.5])))
            .zip(nested(&doubles(&[f64::NAN, f64::NAN, 0.0, 0.0, 1.5])))
            .map(|((given, ordered), apart)| (given, ordered, apart))
        {
            assert_eq!(
                in_order(&given).to_data(),
                ordered.to_data(),
                "{}",
                given.data_type()
            );
            assert_eq!(
                told_apart(&given).to_data(),
                apart.to_data(),
                "{}",
                given.data_type()
            );
        }
    }

    #[test]
    fn nulls_stay_and_other_types_are_not_touched() {
        let floats: ArrayRef =
            Arc::new(Float32Array::from(vec![Some(-f32::NAN), None, Some(-0.0)]));
        let apart = told_apart(&floats);
        let bits = |n: usize| apart.as_primitive::<Float32Type>().value(n).to_bits();
        assert!(apart.is_null(1) && (bits(0), bits(2)) == (f32::NAN.to_bits(), 0));
        let whole: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert_eq!(told_apart(&whole).as_primitive::<Int32Type>().value(0), 1);
    }
}
