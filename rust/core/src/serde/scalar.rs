//! One key or value at a time: the same bytes as in a column.

use super::ordered::{self, number, put_number};
use super::{Kind, Serde, Shape, Side};
use crate::error::{Error, ErrorKind, Result};

/// A value of a serde without fields; moments are epoch microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A truth value.
    Bool(bool),
    /// An integer or a moment.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string or a JSON text.
    Text(&'a str),
}

impl Serde {
    /// The bytes of a value.
    ///
    /// # Errors
    /// `InvalidType` for a value of another type.
    pub fn encode_scalar(&self, value: Scalar<'_>, side: Side) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(8);
        match (value, &self.kind, &self.column.shape) {
            (Scalar::Text(text), Kind::Text { .. }, _) => out.extend_from_slice(text.as_bytes()),
            (Scalar::Bool(value), _, Shape::Bool) => out.push(value.into()),
            (Scalar::Int(value), _, Shape::Fixed(8, order @ ordered::Order::Signed)) => {
                put_number(&mut out, &value.to_le_bytes(), *order, false);
            }
            (Scalar::Float(value), _, Shape::Fixed(8, order @ ordered::Order::Float)) => {
                put_number(&mut out, &value.to_le_bytes(), *order, side == Side::Key);
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

    /// The value of bytes that `encode_scalar` or `encode` made.
    ///
    /// # Errors
    /// `Serialization` if they are not of this serde.
    pub fn decode_scalar<'a>(&self, bytes: &'a [u8]) -> Result<Scalar<'a>> {
        let damaged = |why: String| Error::new(ErrorKind::Serialization, why);
        match (&self.kind, &self.column.shape) {
            (Kind::Text { .. }, _) => std::str::from_utf8(bytes)
                .map(Scalar::Text)
                .map_err(|error| damaged(format!("it is no UTF-8: {error}"))),
            (_, Shape::Bool) => match bytes {
                [0] => Ok(Scalar::Bool(false)),
                [1] => Ok(Scalar::Bool(true)),
                _ => Err(damaged("a truth value is one byte, 0 or 1".to_owned())),
            },
            (_, Shape::Fixed(8, order)) if bytes.len() == 8 => {
                let cell = number(bytes, *order)
                    .first_chunk::<8>()
                    .copied()
                    .unwrap_or_default();
                Ok(match order {
                    ordered::Order::Float => Scalar::Float(f64::from_le_bytes(cell)),
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
