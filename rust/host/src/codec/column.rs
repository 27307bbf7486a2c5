//! Columns of an operator as the root remembers them, their types as text.
//!
//! What may be null is no part of it, also inside of a column: the encoding has room for nulls
//! always, and Spark infers nullability anew from each plan.

use std::sync::Arc;

use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize};

/// A column of an operator's keys or values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its Arrow type, as Arrow writes it.
    #[serde(rename = "type", deserialize_with = "kept_type")]
    pub data_type: String,
}

impl From<&Field> for Column {
    fn from(field: &Field) -> Self {
        Self {
            name: field.name().clone(),
            data_type: type_name(field.data_type()),
        }
    }
}

impl Column {
    /// The column as a field that may be null.
    ///
    /// # Errors
    /// `Restore` for a type that this version of Arrow does not know.
    pub fn field(&self) -> Result<Field> {
        let data_type = parse(&self.data_type).map_err(|error| {
            let text = format!(
                "the root's column {:?} has a type that cannot be read ({}: {error})",
                self.name, self.data_type
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Field::new(&self.name, data_type, true))
    }

    /// Whether the type can be read back: Arrow writes names of inner fields that it cannot read.
    pub fn is_readable(&self) -> bool {
        parse(&self.data_type).is_ok()
    }
}

/// Damaged text must not exhaust the stack: Arrow reads what is inside of what by a recursion.
const DEEPEST: usize = 64;

fn parse(text: &str) -> std::result::Result<DataType, ArrowError> {
    // Names may hold anything; where they end is Arrow's rule.
    let (mut depth, mut deepest, mut quote, mut is_escaped) = (0_usize, 0, None, false);
    for byte in text.bytes() {
        match (quote, byte) {
            (Some(_), b'\\') => is_escaped = true,
            (Some(open), _) if byte == open && is_escaped => is_escaped = false,
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > DEEPEST {
        return Err(ArrowError::ParseError(format!(
            "it is {deepest} types deep, and at most {DEEPEST} can be read"
        )));
    }
    text.parse()
}

/// A type as the root remembers it.
#[must_use]
pub fn type_name(data_type: &DataType) -> String {
    nullable(data_type).to_string()
}

/// The type with inner fields that may be null, all but a map's keys.
fn nullable(data_type: &DataType) -> DataType {
    let inner =
        |field: &FieldRef| Arc::new(Field::new(field.name(), nullable(field.data_type()), true));
    match data_type {
        DataType::List(element) => DataType::List(inner(element)),
        DataType::LargeList(element) => DataType::LargeList(inner(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return data_type.clone();
            };
            let fields = fields.iter().enumerate().map(|(n, field)| {
                if n == 0 {
                    Arc::clone(field)
                } else {
                    inner(field)
                }
            });
            let entries = Field::new(
                entries.name(),
                DataType::Struct(fields.collect()),
                entries.is_nullable(),
            );
            DataType::Map(Arc::new(entries), *sorted)
        }
        _ => data_type.clone(),
    }
}

/// A type that was written before nullability was left out of it: alone, or as what an aggregate is
/// of (`max(…)`).
fn kept_type<'de, D: Deserializer<'de>>(text: D) -> std::result::Result<String, D::Error> {
    let text = String::deserialize(text)?;
    // Names of fields may be read otherwise than they were written.
    let read = |text: &str| parse(text).ok().filter(|read| read.to_string() == text);
    if let Some(data_type) = read(&text) {
        return Ok(type_name(&data_type));
    }
    let of = text.strip_suffix(')').and_then(|text| text.split_once('('));
    let of = of.and_then(|(function, of)| Some(format!("{function}({})", type_name(&read(of)?))));
    Ok(of.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_is_deeper_than_the_stack_is_an_error() {
        let column = |depth: usize| Column {
            name: "c".to_owned(),
            data_type: format!("{}Int64{}", "List(".repeat(depth), ")".repeat(depth)),
        };
        assert!(column(DEEPEST).is_readable());
        assert_eq!(
            column(1_000_000).field().expect_err("too deep").kind(),
            ErrorKind::Restore
        );
        let inside = format!(
            "{}Int64{}",
            "Struct(\")\": ".repeat(1_000_000),
            ")".repeat(1_000_000)
        );
        assert_eq!(
            Column {
                name: "c".to_owned(),
                data_type: inside
            }
            .field()
            .expect_err("too deep")
            .kind(),
            ErrorKind::Restore
        );
        let beside: Vec<Field> = (0..100)
            .map(|n| Field::new(format!("({n}\\\""), DataType::Int64, true))
            .collect();
        assert!(parse(&DataType::Struct(beside.into()).to_string()).is_ok());
    }
}
