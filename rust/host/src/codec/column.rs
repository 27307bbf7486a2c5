//! Columns of an operator as the root stores them, with their types as text.
//!
//! Nullability is not stored, neither of columns nor of the fields inside them: the encoding always
//! has room for nulls, and Spark infers nullability from each plan.

use std::sync::Arc;

use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// A column of an operator's keys or values, as the root stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// Its Arrow type in Arrow's text form.
    #[serde(rename = "type")]
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
    /// Returns the column as a nullable field.
    ///
    /// # Errors
    /// `Restore` if this version of Arrow cannot read the type.
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

    /// Returns why a root cannot record the column; none if it can. Arrow writes some names of
    /// inner fields in a form that it cannot read.
    pub fn unreadable(&self) -> Option<String> {
        parse(&self.data_type).err().map(|_| {
            format!(
                "column {:?} is {}, and the state's root cannot store such field names: rename the \
                 field inside the column (no backslash, no line break, no other invisible \
                 character, not empty)",
                self.name, self.data_type
            )
        })
    }
}

/// The deepest nesting that is read. Arrow parses types recursively, and damaged text must not
/// exhaust the stack.
const MAX_DEPTH: usize = 64;

fn parse(text: &str) -> std::result::Result<DataType, ArrowError> {
    let deepest = unquoted(text).map(|(_, _, depth)| depth).max().unwrap_or(0);
    if deepest > MAX_DEPTH {
        return Err(ArrowError::ParseError(format!(
            "it is nested {deepest} levels deep, and at most {MAX_DEPTH} can be read"
        )));
    }
    text.parse()
}

/// Splits a list of types at its commas, which are outside of brackets and quotes.
pub fn split_types(text: &str) -> Vec<&str> {
    let (mut types, mut start) = (Vec::new(), 0);
    for (place, byte, depth) in unquoted(text) {
        if (byte, depth) == (b',', 0) {
            types.push(text[start..place].trim());
            start = place + 1;
        }
    }
    types.push(text[start..].trim());
    types
}

/// Returns the bytes of a type's text outside of quoted names, each with its place and with the
/// number of brackets that are open after it.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, u8, usize)> {
    // Quotes and escapes are read as Arrow's parser reads them.
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    text.bytes().enumerate().filter_map(move |(place, byte)| {
        match (quote, byte) {
            (Some(_), b'\\') => is_escaped = true,
            (Some(open), _) if byte == open && is_escaped => is_escaped = false,
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        quote.is_none().then_some((place, byte, depth))
    })
}

/// Returns a type in the text form that the root stores.
#[must_use]
pub fn type_name(data_type: &DataType) -> String {
    nullable(data_type).to_string()
}

/// Makes all inner fields nullable, except a map's entries, its key, and the fields inside the key.
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

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn type_nested_too_deeply_is_an_error() {
        let column = |depth: usize| Column {
            name: "c".to_owned(),
            data_type: format!("{}Int64{}", "List(".repeat(depth), ")".repeat(depth)),
        };
        assert!(column(MAX_DEPTH).unreadable().is_none());
        assert_eq!(
            column(1_000_000).field().expect_err("too deep").kind(),
            ErrorKind::Restore
        );
        let quoted_brackets = format!(
            "{}Int64{}",
            "Struct(\")\": ".repeat(1_000_000),
            ")".repeat(1_000_000)
        );
        assert_eq!(
            Column {
                name: "c".to_owned(),
                data_type: quoted_brackets
            }
            .field()
            .expect_err("too deep")
            .kind(),
            ErrorKind::Restore
        );
        let wide: Vec<Field> = (0..100)
            .map(|n| Field::new(format!("({n}\\\""), DataType::Int64, true))
            .collect();
        assert!(parse(&DataType::Struct(wide.into()).to_string()).is_ok());
    }

    #[test]
    fn list_of_types_is_split_outside_of_brackets_and_quotes() {
        let of_two = DataType::Struct(
            [("a, (b\"", DataType::Int64), ("c", DataType::Utf8)]
                .map(|(name, data_type)| Field::new(name, data_type, true))
                .into_iter()
                .collect(),
        );
        let types = [
            of_two,
            DataType::Decimal128(10, 2),
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ];
        let names = types.each_ref().map(type_name);
        let text = names.join(", ");
        assert_eq!(split_types(&text), names);
        let read = split_types(&text).into_iter().map(|text| parse(text).ok());
        // The parser leaves the backslash before a quote in a field's name.
        assert_eq!(read.skip(1).collect::<Vec<_>>(), types.map(Some)[1..]);
        assert!(
            split_types(&text)
                .into_iter()
                .all(|text| parse(text).is_ok())
        );
    }
}
