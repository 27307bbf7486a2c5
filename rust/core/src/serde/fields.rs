//! Structs of plain fields one at a time, without a column: the bytes are those of `key.rs` and
//! `row.rs`.
//!
//! A column of one row costs ten times what its bytes do. So structs of truth values, integers,
//! 64-bit floats, strings and binary have this way, too. It never fails: what it does not know is
//! left to the column's way, and so is what is wrong, since the errors are made there.

use super::column::{Column, Shape, put_length, take_length};
use super::ordered::{
    self, NULL, Order, PRESENT, number, put_escaped, put_number, take, take_escaped,
};
use super::{Kind, Serde, Side};
use arrow_schema::DataType;
use std::borrow::Cow;

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// No value.
    Null,
    /// A truth value.
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
    /// The bytes of a struct, the same as `encode` gives; `None` if that must be asked.
    pub fn encode_items(&self, items: &[Item<'_>], side: Side) -> Option<Vec<u8>> {
        let (Kind::Struct(codec), Shape::Struct(columns)) = (&self.kind, &self.column.shape) else {
            return None;
        };
        if items.len() != columns.len() {
            return None;
        }
        let mut out = Vec::with_capacity(codec.head().len() + 16 * items.len());
        let mut bits = 0;
        if side == Side::Value {
            out.extend_from_slice(codec.head());
            bits = out.len();
            out.resize(bits + items.len().div_ceil(8), 0);
        }
        for (n, (item, column)) in items.iter().zip(columns).enumerate() {
            match (item, side) {
                (Item::Null, _) if !column.nullable => return None,
                (Item::Null, Side::Key) => out.push(NULL),
                (Item::Null, Side::Value) => {}
                (item, Side::Key) => {
                    out.push(PRESENT);
                    put(&mut out, item, column, side)?;
                }
                (item, Side::Value) => {
                    out[bits + n / 8] |= 1 << (n % 8);
                    put(&mut out, item, column, side)?;
                }
            }
        }
        Some(out)
    }

    /// The fields of such bytes, the same as `decode` gives; `None` if that must be asked.
    pub fn decode_items<'a>(&self, mut bytes: &'a [u8], side: Side) -> Option<Vec<Item<'a>>> {
        let (Kind::Struct(codec), Shape::Struct(columns)) = (&self.kind, &self.column.shape) else {
            return None;
        };
        let mut bits: &[u8] = &[];
        if side == Side::Value {
            bytes = bytes.strip_prefix(codec.head())?;
            bits = take(&mut bytes, columns.len().div_ceil(8)).ok()?;
        }
        let mut items = Vec::with_capacity(columns.len());
        for (n, column) in columns.iter().enumerate() {
            let is_present = match side {
                Side::Value => bits[n / 8] & (1 << (n % 8)) != 0,
                Side::Key => match take(&mut bytes, 1).ok()? {
                    [PRESENT] => true,
                    [NULL] => false,
                    _ => return None,
                },
            };
            items.push(match is_present {
                true => read(&mut bytes, column, side)?,
                false if column.nullable => Item::Null,
                false => return None,
            });
        }
        bytes.is_empty().then_some(items)
    }
}

fn is_integer(column: &Column) -> Option<(usize, Order)> {
    match column.shape {
        Shape::Fixed(width, order) if column.data_type.is_integer() => Some((width, order)),
        _ => None,
    }
}

fn put(out: &mut Vec<u8>, item: &Item<'_>, column: &Column, side: Side) -> Option<()> {
    let mut put_cell = |cell: &[u8], order| match side {
        Side::Key => put_number(out, cell, order, true),
        Side::Value => out.extend_from_slice(cell),
    };
    match (item, &column.data_type) {
        (Item::Bool(value), DataType::Boolean) => out.push((*value).into()),
        (Item::Int(value), _) => {
            let (width, order) = is_integer(column)?;
            let cell = value.to_le_bytes();
            // Whatever the cell leaves out of it must come back.
            if integer(&cell[..width], order) != Some(*value)
                || (order == Order::Unsigned && *value < 0)
            {
                return None;
            }
            put_cell(&cell[..width], order);
        }
        (Item::Float(value), DataType::Float64) => put_cell(&value.to_le_bytes(), Order::Float),
        (Item::Text(text), DataType::Utf8) => put_bytes(out, text.as_bytes(), side),
        (Item::Binary(bytes), DataType::Binary) => put_bytes(out, bytes, side),
        _ => return None,
    }
    Some(())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8], side: Side) {
    match side {
        Side::Key => put_escaped(out, bytes),
        Side::Value => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

fn read<'a>(input: &mut &'a [u8], column: &Column, side: Side) -> Option<Item<'a>> {
    let cell = |input: &mut &'a [u8], width: usize, order: ordered::Order| -> Option<[u8; 8]> {
        let mut cell = [0; 8];
        let stored = take(input, width).ok()?;
        match side {
            Side::Key => cell[..width].copy_from_slice(&number(stored, order)[..width]),
            Side::Value => cell[..width].copy_from_slice(stored),
        }
        Some(cell)
    };
    Some(match &column.data_type {
        DataType::Boolean => match take(input, 1).ok()? {
            [0] => Item::Bool(false),
            [1] => Item::Bool(true),
            _ => return None,
        },
        DataType::Float64 => Item::Float(f64::from_le_bytes(cell(input, 8, Order::Float)?)),
        DataType::Utf8 => Item::Text(match read_bytes(input, side)? {
            Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
        }),
        DataType::Binary => Item::Binary(read_bytes(input, side)?),
        _ => {
            let (width, order) = is_integer(column)?;
            let cell = cell(input, width, order)?;
            Item::Int(integer(&cell[..width], order)?)
        }
    })
}

fn read_bytes<'a>(input: &mut &'a [u8], side: Side) -> Option<Cow<'a, [u8]>> {
    match side {
        Side::Value => {
            let length = take_length(input).ok()?;
            take(input, length).ok().map(Cow::Borrowed)
        }
        Side::Key => {
            let mut bytes = Vec::new();
            take_escaped(input, &mut bytes).ok()?;
            Some(Cow::Owned(bytes))
        }
    }
}

/// The integer of a cell; `None` for one above 63 bits.
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

    fn items((bool, long, short, unsigned, float, text, binary): &Row) -> Vec<Item<'_>> {
        vec![
            bool.map_or(Item::Null, Item::Bool),
            long.map_or(Item::Null, Item::Int),
            Item::Int(i64::from(*short)),
            Item::Int(*unsigned as i64),
            float.map_or(Item::Null, Item::Float),
            text.as_deref()
                .map_or(Item::Null, |text| Item::Text(text.into())),
            binary
                .as_deref()
                .map_or(Item::Null, |binary| Item::Binary(binary.into())),
        ]
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_a_column_and_come_back(
            row in any::<Row>().prop_filter("not for this way", |row| i64::try_from(row.3).is_ok()),
        ) {
            let serde = Serde::of_struct(&fields())
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            for side in [Side::Key, Side::Value] {
                let of_column = serde.encode_row(&[column(row.clone())], side)
                    .map_err(|e| TestCaseError::fail(e.to_string()))?;
                let encoded = serde.encode_items(&items(&row), side);
                prop_assert_eq!(encoded.as_ref(), Some(&of_column));
                let read = serde.decode_items(&of_column, side)
                    .ok_or_else(|| TestCaseError::fail("not read"))?;
                let again = serde.encode_items(&read, side);
                prop_assert_eq!(again.as_ref(), Some(&of_column));
                // Nothing shorter or longer is taken for a row.
                prop_assert_eq!(serde.decode_items(&of_column[..of_column.len() - 1], side), None);
                let longer = [of_column.as_slice(), &[1]].concat();
                prop_assert_eq!(serde.decode_items(&longer, side), None);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_column() {
        let serde = |data_type, nullable| {
            Serde::of_struct(&Fields::from(vec![Field::new("a", data_type, nullable)])).ok()
        };
        let encoded = |data_type, nullable, item| {
            serde(data_type, nullable).and_then(|serde| serde.encode_items(&[item], Side::Value))
        };
        assert!(encoded(DataType::Int8, false, Item::Int(-128)).is_some());
        assert_eq!(encoded(DataType::Int8, false, Item::Int(128)), None);
        assert_eq!(encoded(DataType::UInt8, false, Item::Int(-1)), None);
        assert_eq!(encoded(DataType::UInt64, false, Item::Int(-1)), None);
        assert_eq!(encoded(DataType::Int64, false, Item::Null), None);
        assert_eq!(encoded(DataType::Int64, false, Item::Float(1.0)), None);
        assert_eq!(encoded(DataType::Date32, false, Item::Int(1)), None);
        assert_eq!(encoded(DataType::Float32, false, Item::Float(1.0)), None);
    }
}
