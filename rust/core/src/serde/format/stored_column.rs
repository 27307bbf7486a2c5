//! The columns that a serde can store: their types, and what their cells are made of.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::ordered::Order;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use std::sync::Arc;

/// A column of a type that can be stored.
#[derive(Clone, Debug)]
pub struct StoredColumn {
    /// The name of the Arrow field; empty for the outermost column.
    pub name: String,
    /// Whether cells may be null.
    pub nullable: bool,
    /// The type in its plain form: no `large_`, view or dictionary forms.
    pub data_type: DataType,
    /// What the cells are made of.
    pub shape: Shape,
}

/// What the cells of a column are made of.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A boolean.
    Bool,
    /// A number of fixed width: its size in bytes, and the order of such numbers.
    Fixed(usize, Order),
    /// A string or binary.
    Bytes,
    /// The columns of a struct.
    Struct(Vec<StoredColumn>),
    /// Any number of items. The items of a map are structs of key and value.
    List(Box<StoredColumn>),
}

impl StoredColumn {
    /// Returns the column of an Arrow field; `path` names the field in errors.
    ///
    /// # Errors
    /// `InvalidType` for a type that cannot be stored or returned; `InvalidValue` for two fields of
    /// one name.
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
            T::Dictionary(keys, values) => {
                let column = Self::new(
                    &Field::new(field.name(), values.as_ref().clone(), true),
                    path,
                )?;
                check_dictionary(keys, values, &column.shape)
                    .map_err(|why| not_returned(field, path, &why))?;
                (column.data_type, column.shape)
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
            T::Map(_, true) => {
                let why = "the keys of a stored map are not sorted: declare it without sorted keys";
                return Err(not_returned(field, path, why));
            }
            T::Map(entries, false) => {
                let T::Struct(sides) = entries.data_type() else {
                    return Err(Error::new(
                        ErrorKind::InvalidType,
                        format!("field {path} is a map whose entries are not a struct"),
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
                let entries = Field::new("entries", T::Struct(sides), false);
                let column = Self::new(&entries, &format!("{path}[]"))?;
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

    /// Returns the columns of a struct's fields; `path` names the struct and is empty at the top.
    pub fn all(fields: &Fields, path: &str) -> Result<Vec<Self>> {
        for (n, field) in fields.iter().enumerate() {
            if fields[..n].iter().any(|other| other.name() == field.name()) {
                let message = format!(
                    "field {} appears twice; the names of fields must differ",
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

    /// Returns the column as an Arrow field.
    pub fn field(&self) -> FieldRef {
        Arc::new(Field::new(
            &self.name,
            self.data_type.clone(),
            self.nullable,
        ))
    }

    /// Fails unless the cells have an order, as those of a key must.
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
}

/// Fails, with the reason, unless all batches of a column can be returned as dictionaries of this
/// type. `shape` is that of the values.
fn check_dictionary(
    keys: &DataType,
    values: &DataType,
    shape: &Shape,
) -> std::result::Result<(), String> {
    use DataType as T;
    if matches!(values, T::Dictionary(..)) || !matches!(shape, Shape::Fixed(..) | Shape::Bytes) {
        return Err(format!(
            "the values of a dictionary must be numbers, times, strings or binary: declare {values}"
        ));
    }
    if matches!(keys, T::Int8 | T::Int16 | T::UInt8 | T::UInt16) {
        return Err(format!(
            "a batch may have more values than {keys} keys can number: declare {values}, or a \
             dictionary with Int32 keys (columns with {keys} keys are still accepted)"
        ));
    }
    Ok(())
}

/// Returns the error for a type that reads cannot return.
fn not_returned(field: &Field, path: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidType,
        format!(
            "field {path} has type {}, which reads cannot return: {why}",
            field.data_type()
        ),
    )
}

/// Returns the path of a field of a struct.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Lists columns and their types, for errors.
pub fn listed(columns: &[StoredColumn]) -> String {
    let all: Vec<_> = columns
        .iter()
        .map(|column| format!("{}: {}", column.name, column.data_type))
        .collect();
    format!("({})", all.join(", "))
}
