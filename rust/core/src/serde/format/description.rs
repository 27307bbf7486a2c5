//! The description of columns in bytes, and lengths in LEB128.
//!
//! ```text
//! columns  count | column…                         numbers are LEB128
//! column   length | name in UTF-8 | type
//! type     length | code, then the columns of +s, the items' type of +l,
//!          the keys' and the values' types of +m
//! ```
//!
//! A code is the format string of the Arrow C data interface: `b` bool · `c s i l` signed and
//! `C S I L` unsigned integers of 8 to 64 bits · `f g` floats · `d:P,S` decimal128 · `tdD` date32 ·
//! `tss: tsm: tsu: tsn:` timestamps without a time zone; with any time zone, `UTC` follows, since
//! these timestamps are instants · `u` string · `z` binary · `+s +l +m` struct, list, map.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::ordered::take;
use crate::serde::format::stored_column::{Shape, StoredColumn};
use arrow_schema::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// Appends the description of columns.
pub fn describe(columns: &[StoredColumn], out: &mut Vec<u8>) {
    put_length(out, columns.len());
    for column in columns {
        put_text(out, &column.name);
        describe_type(column, out);
    }
}

/// Returns the columns of a description, all nullable.
///
/// # Errors
/// `Serialization` if the description is damaged or has a type that this version cannot read.
pub fn parse(input: &mut &[u8]) -> Result<Vec<StoredColumn>> {
    let count = take_length(input)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let name = take_text(input)?.to_owned();
        let data_type = parse_type(input, 0)?;
        columns.push(StoredColumn::new(
            &Field::new(&name, data_type, true),
            &name,
        )?);
    }
    Ok(columns)
}

/// Returns the format string of the Arrow C data interface for a column's type.
fn code(column: &StoredColumn) -> String {
    use DataType as T;
    let code = match &column.data_type {
        T::Boolean => "b",
        T::Int8 => "c",
        T::Int16 => "s",
        T::Int32 => "i",
        T::Int64 => "l",
        T::UInt8 => "C",
        T::UInt16 => "S",
        T::UInt32 => "I",
        T::UInt64 => "L",
        T::Float32 => "f",
        T::Float64 => "g",
        T::Date32 => "tdD",
        T::Utf8 => "u",
        T::Struct(_) => "+s",
        T::List(_) => "+l",
        T::Map(..) => "+m",
        T::Decimal128(precision, scale) => return format!("d:{precision},{scale}"),
        T::Timestamp(unit, zone) => {
            let unit = UNITS
                .iter()
                .find(|(_, known)| known == unit)
                .map_or("u", |(letter, _)| letter);
            return format!("ts{unit}:{}", if zone.is_some() { "UTC" } else { "" });
        }
        _ => "z",
    };
    code.to_owned()
}

/// Returns whether two columns have the same type.
///
/// The name of a timestamp's zone and the physical form are not compared, but whether there is a
/// zone is. The types inside structs, lists and maps are not compared.
pub fn same_type(left: &StoredColumn, right: &StoredColumn) -> bool {
    code(left) == code(right)
}

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("m", TimeUnit::Millisecond),
    ("u", TimeUnit::Microsecond),
    ("n", TimeUnit::Nanosecond),
];

fn describe_type(column: &StoredColumn, out: &mut Vec<u8>) {
    put_text(out, &code(column));
    match (&column.shape, &column.data_type) {
        (Shape::Struct(columns), _) => describe(columns, out),
        (Shape::List(entries), DataType::Map(..)) => {
            if let Shape::Struct(columns) = &entries.shape {
                columns.iter().for_each(|column| describe_type(column, out));
            }
        }
        (Shape::List(item), _) => describe_type(item, out),
        _ => {}
    }
}

/// The deepest nesting of types that is read. Damaged bytes must not exhaust the stack.
const MAX_DEPTH: usize = 64;

fn parse_type(input: &mut &[u8], depth: usize) -> Result<DataType> {
    use DataType as T;
    let code = take_text(input)?;
    let unknown = || {
        Error::new(
            ErrorKind::Serialization,
            format!("it has a column of an unknown type {code:?}"),
        )
    };
    if depth > MAX_DEPTH {
        return Err(unknown());
    }
    Ok(match code {
        "b" => T::Boolean,
        "c" => T::Int8,
        "s" => T::Int16,
        "i" => T::Int32,
        "l" => T::Int64,
        "C" => T::UInt8,
        "S" => T::UInt16,
        "I" => T::UInt32,
        "L" => T::UInt64,
        "f" => T::Float32,
        "g" => T::Float64,
        "tdD" => T::Date32,
        "u" => T::Utf8,
        "z" => T::Binary,
        "+s" => {
            let mut fields = Vec::new();
            for _ in 0..take_length(input)? {
                let name = take_text(input)?.to_owned();
                fields.push(Field::new(name, parse_type(input, depth + 1)?, true));
            }
            T::Struct(fields.into())
        }
        "+l" => T::List(Arc::new(Field::new_list_field(
            parse_type(input, depth + 1)?,
            true,
        ))),
        "+m" => {
            let key = Field::new("key", parse_type(input, depth + 1)?, false);
            let value = Field::new("value", parse_type(input, depth + 1)?, true);
            T::Map(
                Arc::new(Field::new(
                    "entries",
                    T::Struct(vec![key, value].into()),
                    false,
                )),
                false,
            )
        }
        _ => match (code.strip_prefix("d:"), code.strip_prefix("ts")) {
            (Some(digits), _) => {
                let (precision, scale) = digits.split_once(',').ok_or_else(unknown)?;
                T::Decimal128(
                    precision.parse().map_err(|_| unknown())?,
                    scale.parse().map_err(|_| unknown())?,
                )
            }
            (_, Some(rest)) => {
                let (letter, zone) = rest.split_once(':').ok_or_else(unknown)?;
                let (_, unit) = UNITS
                    .iter()
                    .find(|(known, _)| *known == letter)
                    .ok_or_else(unknown)?;
                T::Timestamp(*unit, (!zone.is_empty()).then(|| zone.into()))
            }
            _ => return Err(unknown()),
        },
    })
}

/// Appends a length in LEB128.
pub fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Takes a length in LEB128 from the front of `input`.
pub fn take_length(input: &mut &[u8]) -> Result<usize> {
    let mut length = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = take(input, 1)?[0];
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err(Error::new(
        ErrorKind::Serialization,
        "a length in it has no end",
    ))
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(input: &mut &'a [u8]) -> Result<&'a str> {
    let length = take_length(input)?;
    std::str::from_utf8(take(input, length)?)
        .map_err(|_| Error::new(ErrorKind::Serialization, "a name in it is not UTF-8"))
}
