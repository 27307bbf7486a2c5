//! The columns that a serde knows: their types, what those are made of, and a description of them
//! in bytes.
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
//! `tss: tsm: tsu: tsn:` timestamps, those with a zone followed by `UTC`, whatever the zone, since
//! they are instants · `u` string · `z` binary · `+s +l +m` struct, list, map.

use super::ordered::{Order, take};
use crate::error::{Error, ErrorKind, Result};
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use std::sync::Arc;

/// A column as it is stored.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name; empty for what is not part of a struct.
    pub name: String,
    /// Whether it may be null.
    pub nullable: bool,
    /// Its type, in the one form that is used inside: no `large_`, no views, no dictionaries.
    pub data_type: DataType,
    /// What its cells are made of.
    pub shape: Shape,
}

/// What the cells of a column are made of.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A truth value.
    Bool,
    /// A number of so many bytes.
    Fixed(usize, Order),
    /// A string or binary.
    Bytes,
    /// Further columns.
    Struct(Vec<Column>),
    /// Any number of items. A map's are structs of key and value.
    List(Box<Column>),
}

impl Column {
    /// The column of an Arrow field; `path` names it in errors.
    ///
    /// # Errors
    /// `InvalidType` for a type that cannot be stored.
    pub fn new(field: &Field, path: &str) -> Result<Self> {
        use DataType as T;
        let plain = |data_type: &DataType, shape| (data_type.clone(), shape);
        let fixed = |width, order| plain(field.data_type(), Shape::Fixed(width, order));
        let (data_type, shape) = match field.data_type() {
            T::Boolean => plain(&T::Boolean, Shape::Bool),
            T::Int8 => fixed(1, Order::Signed),
            T::Int16 => fixed(2, Order::Signed),
            T::Int32 | T::Date32 => fixed(4, Order::Signed),
            T::Int64 | T::Timestamp(..) => fixed(8, Order::Signed),
            T::UInt8 => fixed(1, Order::Unsigned),
            T::UInt16 => fixed(2, Order::Unsigned),
            T::UInt32 => fixed(4, Order::Unsigned),
            T::UInt64 => fixed(8, Order::Unsigned),
            T::Float32 => fixed(4, Order::Float),
            T::Float64 => fixed(8, Order::Float),
            T::Decimal128(..) => fixed(16, Order::Signed),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => plain(&T::Utf8, Shape::Bytes),
            T::Binary | T::LargeBinary | T::BinaryView => plain(&T::Binary, Shape::Bytes),
            T::Dictionary(_, values) => {
                let values = Self::new(
                    &Field::new(field.name(), values.as_ref().clone(), true),
                    path,
                )?;
                (values.data_type, values.shape)
            }
            T::Struct(fields) => {
                let columns = Self::all(fields, path)?;
                let fields: Fields = columns.iter().map(Self::field).collect();
                (T::Struct(fields), Shape::Struct(columns))
            }
            T::List(item) | T::LargeList(item) => {
                let column = Self::new(item, &format!("{path}[]"))?;
                (T::List(column.field()), Shape::List(Box::new(column)))
            }
            T::Map(entries, _) => {
                let T::Struct(sides) = entries.data_type() else {
                    return Err(Error::new(
                        ErrorKind::InvalidType,
                        format!("field {path} is a map whose entries are no struct"),
                    ));
                };
                let named = |n: usize, name: &str| {
                    sides
                        .get(n)
                        .map(|side| side.as_ref().clone().with_name(name))
                };
                let sides: Fields = [named(0, "key"), named(1, "value")]
                    .into_iter()
                    .flatten()
                    .collect();
                let column = Self::new(&Field::new("entries", T::Struct(sides), false), path)?;
                (T::Map(column.field(), false), Shape::List(Box::new(column)))
            }
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidType,
                    format!("field {path} has type {other}, which cannot be stored; cast it"),
                ));
            }
        };
        Ok(Self {
            name: field.name().clone(),
            nullable: field.is_nullable(),
            data_type,
            shape,
        })
    }

    /// The columns of a struct's fields; `path` names the struct, empty at the top.
    pub fn all(fields: &Fields, path: &str) -> Result<Vec<Self>> {
        for (n, field) in fields.iter().enumerate() {
            if fields[..n].iter().any(|other| other.name() == field.name()) {
                let message = format!(
                    "field {} is there twice; fields are told apart by their names",
                    below(path, field.name())
                );
                return Err(Error::new(ErrorKind::InvalidValue, message));
            }
        }
        fields
            .iter()
            .map(|field| Self::new(field, &below(path, field.name())))
            .collect()
    }

    /// It as an Arrow field.
    pub fn field(&self) -> FieldRef {
        Arc::new(Field::new(
            &self.name,
            self.data_type.clone(),
            self.nullable,
        ))
    }

    /// Fails unless its cells have an order, as a key's must.
    pub fn check_key(&self, path: &str) -> Result<()> {
        match &self.shape {
            Shape::List(_) => Err(Error::new(
                ErrorKind::InvalidType,
                format!(
                    "field {path} has type {}, which cannot be part of a key: lists and maps are \
                     for values",
                    self.data_type
                ),
            )),
            Shape::Struct(columns) => columns
                .iter()
                .try_for_each(|column| column.check_key(&below(path, &column.name))),
            Shape::Bool | Shape::Fixed(..) | Shape::Bytes => Ok(()),
        }
    }

    fn code(&self) -> String {
        use DataType as T;
        let code = match &self.data_type {
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

    fn describe_type(&self, out: &mut Vec<u8>) {
        put_text(out, &self.code());
        match (&self.shape, &self.data_type) {
            (Shape::Struct(columns), _) => describe(columns, out),
            (Shape::List(entries), DataType::Map(..)) => {
                if let Shape::Struct(columns) = &entries.shape {
                    columns.iter().for_each(|column| column.describe_type(out));
                }
            }
            (Shape::List(item), _) => item.describe_type(out),
            _ => {}
        }
    }

    /// Whether two columns have the same type, physical forms, zones and the names of items aside;
    /// structs inside may differ.
    pub fn same_type(&self, other: &Self) -> bool {
        self.code() == other.code()
    }
}

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("m", TimeUnit::Millisecond),
    ("u", TimeUnit::Microsecond),
    ("n", TimeUnit::Nanosecond),
];

/// The path of a field of a struct.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Columns and their types, for errors.
pub fn listed(columns: &[Column]) -> String {
    let all: Vec<_> = columns
        .iter()
        .map(|column| format!("{}: {}", column.name, column.data_type))
        .collect();
    format!("({})", all.join(", "))
}

/// Appends the description of columns.
pub fn describe(columns: &[Column], out: &mut Vec<u8>) {
    put_length(out, columns.len());
    for column in columns {
        put_text(out, &column.name);
        column.describe_type(out);
    }
}

/// The columns of a description, all nullable.
///
/// # Errors
/// `Serialization` where it is damaged or has a type that this version does not know.
pub fn parse(input: &mut &[u8]) -> Result<Vec<Column>> {
    let count = take_length(input)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let name = take_text(input)?.to_owned();
        let data_type = parse_type(input, 0)?;
        columns.push(Column::new(&Field::new(&name, data_type, true), &name)?);
    }
    Ok(columns)
}

/// Damaged bytes must not exhaust the stack.
const DEEPEST: usize = 64;

fn parse_type(input: &mut &[u8], depth: usize) -> Result<DataType> {
    use DataType as T;
    let code = take_text(input)?;
    let unknown = || {
        Error::new(
            ErrorKind::Serialization,
            format!("it has a column of an unknown type {code:?}"),
        )
    };
    if depth > DEEPEST {
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
        .map_err(|_| Error::new(ErrorKind::Serialization, "a name in it is no UTF-8"))
}
