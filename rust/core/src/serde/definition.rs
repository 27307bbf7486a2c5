//! The serde of a type.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::format::row::RowCodec;
use crate::serde::format::stored_column::{Shape, StoredColumn};
use crate::serde::timestamp;
use arrow_schema::{DataType, Field, Fields};

/// Encodes keys or values of one type as bytes, and decodes them.
#[derive(Debug)]
pub struct Serde {
    pub(super) kind: SerdeKind,
    pub(super) column: StoredColumn,
    /// The Arrow type of typed columns, in the form that was declared.
    pub(super) declared: DataType,
}

/// How a serde encodes.
#[derive(Debug)]
pub(super) enum SerdeKind {
    /// Strings or JSON texts, whose bytes are those of Arrow.
    Text { json: bool },
    /// Timestamps of any unit.
    Timestamp,
    /// Other types without fields.
    Plain,
    /// Structs.
    Struct(RowCodec),
}

impl Serde {
    /// Returns the serde of a name: `string`, `int64`, `float64`, `bool`, `timestamp` or `json`.
    ///
    /// # Errors
    /// `InvalidValue` for another name.
    pub fn named(name: &str) -> Result<Self> {
        let (kind, data_type) = match name {
            "string" => (SerdeKind::Text { json: false }, DataType::Utf8),
            "json" => (SerdeKind::Text { json: true }, DataType::Utf8),
            "int64" => (SerdeKind::Plain, DataType::Int64),
            "float64" => (SerdeKind::Plain, DataType::Float64),
            "bool" => (SerdeKind::Plain, DataType::Boolean),
            "timestamp" => (SerdeKind::Timestamp, timestamp::data_type()),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    format!(
                        "there is no serde {name:?}: use string, int64, float64, bool, timestamp \
                         or json"
                    ),
                ));
            }
        };
        let column = StoredColumn::new(&Field::new("", data_type.clone(), true), name)?;
        Ok(Self {
            kind,
            column,
            declared: data_type,
        })
    }

    /// Returns the serde of structs with these fields.
    ///
    /// # Errors
    /// `InvalidType` names a field whose type cannot be stored; `InvalidValue` names a duplicate
    /// field.
    pub fn of_struct(fields: &Fields) -> Result<Self> {
        let declared = DataType::Struct(fields.clone());
        let column = StoredColumn::new(&Field::new("", declared.clone(), true), "")?;
        let Shape::Struct(columns) = &column.shape else {
            return Err(Error::new(ErrorKind::InvalidType, "a struct has fields"));
        };
        Ok(Self {
            kind: SerdeKind::Struct(RowCodec::new(columns)?),
            column,
            declared,
        })
    }

    /// Returns the Arrow type of typed columns.
    pub fn data_type(&self) -> &DataType {
        &self.declared
    }

    /// Fails if keys cannot have this type: lists and maps have no order.
    ///
    /// # Errors
    /// `InvalidType` names the field.
    pub fn check_key(&self) -> Result<()> {
        self.column.check_key("")
    }
}
