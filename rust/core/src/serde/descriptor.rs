//! What a store records about its serde.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::definition::{Serde, SerdeKind};
use crate::serde::format::ordered::Order;
use crate::serde::format::stored_column::{Shape, StoredColumn, listed};
use crate::serde::format::{description, row};
use crate::serde::side::SerdeSide;

/// The bytes that the descriptor of a struct begins with.
const STRUCT: &[u8] = b"struct\0";

impl Serde {
    /// Returns what a store records about its serde: a name, for structs also the columns.
    pub fn descriptor(&self) -> Vec<u8> {
        match (&self.kind, &self.column.shape) {
            (SerdeKind::Struct(_), Shape::Struct(columns)) => {
                let mut descriptor = STRUCT.to_vec();
                description::describe(columns, &mut descriptor);
                descriptor
            }
            (SerdeKind::Text { json: true }, _) => b"json".to_vec(),
            (SerdeKind::Text { json: false }, _) => b"string".to_vec(),
            (SerdeKind::Timestamp, _) => b"timestamp".to_vec(),
            (_, Shape::Bool) => b"bool".to_vec(),
            (_, Shape::Fixed(_, Order::Float)) => b"float64".to_vec(),
            _ => b"int64".to_vec(),
        }
    }

    /// Returns the serde of a descriptor. A descriptor does not record which columns may be null,
    /// so all may.
    ///
    /// # Errors
    /// `InvalidValue` or `Serialization` if the bytes are not a descriptor.
    pub fn of_descriptor(descriptor: &[u8]) -> Result<Self> {
        match descriptor.strip_prefix(STRUCT) {
            Some(mut columns) => Self::of_struct(
                &description::parse(&mut columns)?
                    .iter()
                    .map(StoredColumn::field)
                    .collect(),
            ),
            None => Self::named(&String::from_utf8_lossy(descriptor)),
        }
    }

    /// Fails unless this serde can read what the serde of a descriptor wrote.
    ///
    /// The columns of keys are fixed. Columns of values may be removed, and nullable columns added.
    ///
    /// # Errors
    /// `InvalidValue` for another serde or for other columns of a key. `Serialization` for columns
    /// of a value that do not fit: the message names the first.
    pub fn check_descriptor(&self, stored: &[u8], side: SerdeSide) -> Result<()> {
        let current = self.descriptor();
        let (Some(mut written), Shape::Struct(columns), SerdeKind::Struct(_)) =
            (stored.strip_prefix(STRUCT), &self.column.shape, &self.kind)
        else {
            let name = |descriptor: &[u8]| match descriptor.starts_with(STRUCT) {
                true => "struct".to_owned(),
                false => String::from_utf8_lossy(descriptor).into_owned(),
            };
            return if stored == current {
                Ok(())
            } else {
                let message = format!(
                    "it was written with the serde {} and is now opened with {}",
                    name(stored),
                    name(&current)
                );
                Err(Error::new(ErrorKind::InvalidValue, message))
            };
        };
        let written = description::parse(&mut written)?;
        match side {
            SerdeSide::Value => row::check_evolution(&written, columns),
            SerdeSide::Key if stored == current => Ok(()),
            SerdeSide::Key => Err(Error::new(
                ErrorKind::InvalidValue,
                format!(
                    "its columns were {} and are now {}; a key's columns are fixed",
                    listed(&written),
                    listed(columns)
                ),
            )),
        }
    }
}
