//! Encodes and decodes one struct of plain fields without an Arrow column. The bytes are those of
//! `format/key.rs` and `format/row.rs`.
//!
//! To build a column of one row takes ten times as long as to encode the bytes directly. This
//! module is for structs of booleans, integers, 64-bit floats, strings and binary. It returns no
//! errors: for other types and for wrong values it returns `None`. The caller then uses a column,
//! and the column's code reports the errors.

use crate::serde::definition::{Serde, SerdeKind};
use crate::serde::format::description::{put_length, take_length};
use crate::serde::format::ordered::{
    self, NULL, Order, PRESENT, number, put_escaped, put_number, take, take_escaped,
};
use crate::serde::format::stored_column::{Shape, StoredColumn};
use crate::serde::side::SerdeSide;
use arrow_schema::DataType;
use std::borrow::Cow;

/// The value of a field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of any width.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// Bytes.
    Binary(Cow<'a, [u8]>),
}

impl Serde {
    /// Encodes a struct as `encode` does; `None` if only `encode` can.
    pub fn encode_fields(&self, values: &[FieldValue<'_>], side: SerdeSide) -> Option<Vec<u8>> {
        let (SerdeKind::Struct(codec), Shape::Struct(columns)) = (&self.kind, &self.column.shape)
        else {
            return None;
        };
        if values.len() != columns.len() {
            return None;
        }
        let mut out = Vec::with_capacity(codec.head().len() + 16 * values.len());
        let mut bits = 0;
        if side == SerdeSide::Value {
            out.extend_from_slice(codec.head());
            bits = out.len();
            out.resize(bits + values.len().div_ceil(8), 0);
        }
        for (n, (value, column)) in values.iter().zip(columns).enumerate() {
            match (value, side) {
                (FieldValue::Null, _) if !column.nullable => return None,
                (FieldValue::Null, SerdeSide::Key) => out.push(NULL),
                (FieldValue::Null, SerdeSide::Value) => {}
                (value, SerdeSide::Key) => {
                    out.push(PRESENT);
                    put(&mut out, value, column, side)?;
                }
                (value, SerdeSide::Value) => {
                    out[bits + n / 8] |= 1 << (n % 8);
                    put(&mut out, value, column, side)?;
                }
            }
        }
        Some(out)
    }

    /// Decodes the fields of a struct as `decode` does; `None` if only `decode` can.
    pub fn decode_fields<'a>(
        &self,
        mut bytes: &'a [u8],
        side: SerdeSide,
    ) -> Option<Vec<FieldValue<'a>>> {
        let (SerdeKind::Struct(codec), Shape::Struct(columns)) = (&self.kind, &self.column.shape)
        else {
            return None;
        };
        let mut bits: &[u8] = &[];
        if side == SerdeSide::Value {
            bytes = bytes.strip_prefix(codec.head())?;
            bits = take(&mut bytes, columns.len().div_ceil(8)).ok()?;
        }
        let mut values = Vec::with_capacity(columns.len());
        for (n, column) in columns.iter().enumerate() {
            let is_present = match side {
                SerdeSide::Value => bits[n / 8] & (1 << (n % 8)) != 0,
                SerdeSide::Key => match take(&mut bytes, 1).ok()? {
                    [PRESENT] => true,
                    [NULL] => false,
                    _ => return None,
                },
            };
            values.push(match is_present {
                true => read(&mut bytes, column, side)?,
                false if column.nullable => FieldValue::Null,
                false => return None,
            });
        }
        bytes.is_empty().then_some(values)
    }
}

/// Returns the width and order of a column of integers.
fn integer_shape(column: &StoredColumn) -> Option<(usize, Order)> {
    match column.shape {
        Shape::Fixed(width, order) if column.data_type.is_integer() => Some((width, order)),
        _ => None,
    }
}

fn put(
    out: &mut Vec<u8>,
    field: &FieldValue<'_>,
    column: &StoredColumn,
    side: SerdeSide,
) -> Option<()> {
    let mut put_cell = |cell: &[u8], order| match side {
        SerdeSide::Key => put_number(out, cell, order, true),
        SerdeSide::Value => out.extend_from_slice(cell),
    };
    match (field, &column.data_type) {
        (FieldValue::Bool(value), DataType::Boolean) => out.push((*value).into()),
        (FieldValue::Int(value), _) => {
            let (width, order) = integer_shape(column)?;
            let cell = value.to_le_bytes();
            // The narrower cell must hold the value without loss.
            if integer(&cell[..width], order) != Some(*value)
                || (order == Order::Unsigned && *value < 0)
            {
                return None;
            }
            put_cell(&cell[..width], order);
        }
        (FieldValue::Float(value), DataType::Float64) => {
            put_cell(&value.to_le_bytes(), Order::Float)
        }
        (FieldValue::Text(text), DataType::Utf8) => put_bytes(out, text.as_bytes(), side),
        (FieldValue::Binary(bytes), DataType::Binary) => put_bytes(out, bytes, side),
        _ => return None,
    }
    Some(())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8], side: SerdeSide) {
    match side {
        SerdeSide::Key => put_escaped(out, bytes),
        SerdeSide::Value => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

fn read<'a>(
    input: &mut &'a [u8],
    column: &StoredColumn,
    side: SerdeSide,
) -> Option<FieldValue<'a>> {
    let cell = |input: &mut &'a [u8], width: usize, order: ordered::Order| -> Option<[u8; 8]> {
        let mut cell = [0; 8];
        let stored = take(input, width).ok()?;
        match side {
            SerdeSide::Key => cell[..width].copy_from_slice(&number(stored, order)[..width]),
            SerdeSide::Value => cell[..width].copy_from_slice(stored),
        }
        Some(cell)
    };
    Some(match &column.data_type {
        DataType::Boolean => match take(input, 1).ok()? {
            [0] => FieldValue::Bool(false),
            [1] => FieldValue::Bool(true),
            _ => return None,
        },
        DataType::Float64 => FieldValue::Float(f64::from_le_bytes(cell(input, 8, Order::Float)?)),
        DataType::Utf8 => FieldValue::Text(match read_bytes(input, side)? {
            Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
        }),
        DataType::Binary => FieldValue::Binary(read_bytes(input, side)?),
        _ => {
            let (width, order) = integer_shape(column)?;
            let cell = cell(input, width, order)?;
            FieldValue::Int(integer(&cell[..width], order)?)
        }
    })
}

fn read_bytes<'a>(input: &mut &'a [u8], side: SerdeSide) -> Option<Cow<'a, [u8]>> {
    match side {
        SerdeSide::Value => {
            let length = take_length(input).ok()?;
            take(input, length).ok().map(Cow::Borrowed)
        }
        SerdeSide::Key => {
            let mut bytes = Vec::new();
            take_escaped(input, &mut bytes).ok()?;
            Some(Cow::Owned(bytes))
        }
    }
}

/// Returns the integer of a cell; `None` if it is greater than `i64::MAX`.
fn integer(cell: &[u8], order: Order) -> Option<i64> {
    let is_negative = order == Order::Signed && cell.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = [if is_negative { 0xff } else { 0 }; 8];
    whole[..cell.len()].copy_from_slice(cell);
    match order {
        Order::Unsigned => i64::try_from(u64::from_le_bytes(whole)).ok(),
        _ => Some(i64::from_le_bytes(whole)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Float64Type, Int16Type, Int64Type, UInt64Type};
    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray, StructArray,
    };
    use arrow_schema::{Field, Fields};
    use proptest::prelude::*;
    use std::sync::Arc;

    type Row = (
        Option<bool>,
        Option<i64>,
        i16,
        u64,
        Option<f64>,
        Option<String>,
        Option<Vec<u8>>,
    );

    fn fields() -> Fields {
        let field = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
        Fields::from(vec![
            field("bool", DataType::Boolean, true),
            field("long", DataType::Int64, true),
            field("short", DataType::Int16, false),
            field("unsigned", DataType::UInt64, false),
            field("float", DataType::Float64, true),
            field("text", DataType::Utf8, true),
            field("binary", DataType::Binary, true),
        ])
    }

    fn column((bool, long, short, unsigned, float, text, binary): Row) -> ArrayRef {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![bool])),
            Arc::new(PrimitiveArray::<Int64Type>::from(vec![long])),
            Arc::new(PrimitiveArray::<Int16Type>::from(vec![short])),
            Arc::new(PrimitiveArray::<UInt64Type>::from(vec![unsigned])),
            Arc::new(PrimitiveArray::<Float64Type>::from(vec![float])),
            Arc::new(StringArray::from(vec![text])),
            Arc::new(BinaryArray::from(vec![binary.as_deref()])),
        ];
        Arc::new(StructArray::new(fields(), columns, None))
    }

    fn values((bool, long, short, unsigned, float, text, binary): &Row) -> Vec<FieldValue<'_>> {
        vec![
            bool.map_or(FieldValue::Null, FieldValue::Bool),
            long.map_or(FieldValue::Null, FieldValue::Int),
            FieldValue::Int(i64::from(*short)),
            FieldValue::Int(*unsigned as i64),
            float.map_or(FieldValue::Null, FieldValue::Float),
            text.as_deref()
                .map_or(FieldValue::Null, |text| FieldValue::Text(text.into())),
            binary
                .as_deref()
                .map_or(FieldValue::Null, |binary| FieldValue::Binary(binary.into())),
        ]
    }

    proptest! {
        #[test]
        fn fields_encode_as_a_column_and_decode_back(
            row in any::<Row>().prop_filter("above 63 bits", |row| i64::try_from(row.3).is_ok()),
        ) {
            let serde = Serde::of_struct(&fields())
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            for side in [SerdeSide::Key, SerdeSide::Value] {
                let of_column = serde.encode_row(&[column(row.clone())], side)
                    .map_err(|e| TestCaseError::fail(e.to_string()))?;
                let encoded = serde.encode_fields(&values(&row), side);
                prop_assert_eq!(encoded.as_ref(), Some(&of_column));
                let read = serde.decode_fields(&of_column, side)
                    .ok_or_else(|| TestCaseError::fail("not read"))?;
                let again = serde.encode_fields(&read, side);
                prop_assert_eq!(again.as_ref(), Some(&of_column));
                // Bytes of another length are not decoded as a row.
                prop_assert_eq!(serde.decode_fields(&of_column[..of_column.len() - 1], side), None);
                let longer = [of_column.as_slice(), &[1]].concat();
                prop_assert_eq!(serde.decode_fields(&longer, side), None);
            }
        }
    }

    #[test]
    fn values_that_do_not_fit_return_none() {
        let serde = |data_type, nullable| {
            Serde::of_struct(&Fields::from(vec![Field::new("a", data_type, nullable)])).ok()
        };
        let encoded = |data_type, nullable, item| {
            serde(data_type, nullable)
                .and_then(|serde| serde.encode_fields(&[item], SerdeSide::Value))
        };
        assert!(encoded(DataType::Int8, false, FieldValue::Int(-128)).is_some());
        assert_eq!(encoded(DataType::Int8, false, FieldValue::Int(128)), None);
        assert_eq!(encoded(DataType::UInt8, false, FieldValue::Int(-1)), None);
        assert_eq!(encoded(DataType::UInt64, false, FieldValue::Int(-1)), None);
        assert_eq!(encoded(DataType::Int64, false, FieldValue::Null), None);
        assert_eq!(
            encoded(DataType::Int64, false, FieldValue::Float(1.0)),
            None
        );
        assert_eq!(encoded(DataType::Date32, false, FieldValue::Int(1)), None);
        assert_eq!(
            encoded(DataType::Float32, false, FieldValue::Float(1.0)),
            None
        );
    }
}
