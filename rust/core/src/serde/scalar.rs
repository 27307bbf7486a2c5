//! Single values of types without fields: the same bytes as in a column.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::definition::{Serde, SerdeKind};
use crate::serde::format::ordered::{Order, number, put_number};
use crate::serde::format::stored_column::Shape;
use crate::serde::side::SerdeSide;

/// A value of a serde without fields; times are epoch microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A boolean.
    Bool(bool),
    /// An integer or a time.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string or a JSON text.
    Text(&'a str),
}

impl Serde {
    /// Encodes a value.
    ///
    /// # Errors
    /// `InvalidType` for a value of another type.
    pub fn encode_scalar(&self, value: Scalar<'_>, side: SerdeSide) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(8);
        match (value, &self.kind, &self.column.shape) {
            (Scalar::Text(text), SerdeKind::Text { .. }, _) => {
                out.extend_from_slice(text.as_bytes())
            }
            (Scalar::Bool(value), _, Shape::Bool) => out.push(value.into()),
            (Scalar::Int(value), _, Shape::Fixed(8, order @ Order::Signed)) => {
                put_number(&mut out, &value.to_le_bytes(), *order, false);
            }
            (Scalar::Float(value), _, Shape::Fixed(8, order @ Order::Float)) => {
                put_number(
                    &mut out,
                    &value.to_le_bytes(),
                    *order,
                    side == SerdeSide::Key,
                );
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidType,
                    format!("{value:?} is not of the serde's type {}", self.declared),
                ));
            }
        }
        Ok(out)
    }

    /// Decodes a value that `encode_scalar` or `encode` encoded.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not of this serde.
    pub fn decode_scalar<'a>(&self, bytes: &'a [u8]) -> Result<Scalar<'a>> {
        let damaged = |why: String| Error::new(ErrorKind::Serialization, why);
        match (&self.kind, &self.column.shape) {
            (SerdeKind::Text { .. }, _) => std::str::from_utf8(bytes)
                .map(Scalar::Text)
                .map_err(|error| damaged(format!("it is not UTF-8: {error}"))),
            (_, Shape::Bool) => match bytes {
                [0] => Ok(Scalar::Bool(false)),
                [1] => Ok(Scalar::Bool(true)),
                _ => Err(damaged("a boolean is one byte, 0 or 1".to_owned())),
            },
            (_, Shape::Fixed(8, order)) if bytes.len() == 8 => {
                let cell = number(bytes, *order)
                    .first_chunk::<8>()
                    .copied()
                    .unwrap_or_default();
                Ok(match order {
                    Order::Float => Scalar::Float(f64::from_le_bytes(cell)),
                    _ => Scalar::Int(i64::from_le_bytes(cell)),
                })
            }
            _ => Err(damaged(format!(
                "{} has 8 bytes, this has {}",
                self.declared,
                bytes.len()
            ))),
        }
    }
}
