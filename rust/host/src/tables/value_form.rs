//! How a table's values are encoded.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_schema::Field;
use holdfast_core::serde::{Serde, SerdeSide};
use holdfast_core::{Database, Error, ErrorKind, Result, Transaction};

use super::stored_rows::StoredRows;
use crate::codec::evolving_row::PayloadCodec;
use crate::operator::aggregate::{StoredGroup, StoredGroups};
use crate::operator::join_foreign_key::StoredLeftRow;

/// The columns of a table's values, and their bytes.
pub struct ValueForm {
    fields: Vec<Field>,
    encoding: ValueEncoding,
}

enum ValueEncoding {
    /// Payload columns of the operator's input.
    Payload(PayloadCodec),
    /// The same, in rows of the left table of a foreign-key join.
    LeftRow(PayloadCodec),
    /// One column with a user's serde; none: bytes.
    Serde(Option<Serde>),
    /// The states of groups.
    Groups(Box<StoredGroups>),
    /// No columns.
    Nothing,
}

impl ValueForm {
    /// Payloads, by version of their columns. The newest version's columns are the table's.
    ///
    /// # Errors
    /// `InvalidType` for a column that cannot be decoded.
    pub fn payload(versions: &[Vec<Field>]) -> Result<Self> {
        let (fields, codec) = payload_codec(versions)?;
        Ok(Self {
            fields,
            encoding: ValueEncoding::Payload(codec),
        })
    }

    /// As [`ValueForm::payload`], for rows of the left table of a foreign-key join.
    ///
    /// # Errors
    /// As [`ValueForm::payload`].
    pub fn payload_of_left_row(versions: &[Vec<Field>]) -> Result<Self> {
        let (fields, codec) = payload_codec(versions)?;
        Ok(Self {
            fields,
            encoding: ValueEncoding::LeftRow(codec),
        })
    }

    /// Values of one column with a serde; without one they are bytes.
    pub fn serde(field: Field, serde: Option<Serde>) -> Self {
        Self {
            fields: vec![field],
            encoding: ValueEncoding::Serde(serde),
        }
    }

    /// The results of groups.
    pub fn groups(groups: StoredGroups) -> Self {
        Self {
            fields: groups.fields().to_vec(),
            encoding: ValueEncoding::Groups(Box::new(groups)),
        }
    }

    /// Values that have no columns.
    pub fn nothing() -> Self {
        Self {
            fields: Vec::new(),
            encoding: ValueEncoding::Nothing,
        }
    }

    /// The value's columns.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The groups, if the values are the results of groups.
    pub fn as_groups(&self) -> Option<&StoredGroups> {
        match &self.encoding {
            ValueEncoding::Groups(groups) => Some(groups),
            _ => None,
        }
    }

    /// Decodes the values of rows, from the row `start` on, into columns; a missing value is a row
    /// of nulls. Returns the columns and how many rows they have: all rows, or as many groups as
    /// fit into a batch.
    ///
    /// `database` has the parts of groups' results that are not in the groups' states.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not such values; the store's, if a value is in several
    /// stores; `InvalidState` for groups without a database.
    pub fn decode(
        &self,
        database: Option<(&Database, &mut Transaction)>,
        rows: &StoredRows,
        start: usize,
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let values = rows.values().skip(start);
        let columns = match &self.encoding {
            ValueEncoding::Payload(codec) => codec.decode(values)?,
            ValueEncoding::LeftRow(codec) => {
                let payloads = values.map(|row| row.map(payload_of).transpose());
                codec.decode(payloads.collect::<Result<Vec<_>>>()?)?
            }
            ValueEncoding::Groups(groups) => {
                let stored = rows.keys().zip(rows.values()).zip(rows.times());
                let stored: Vec<StoredGroup<'_>> = stored
                    .skip(start)
                    .map(|((key, state), times)| StoredGroup {
                        key,
                        start: times.begin.unwrap_or(0),
                        state,
                    })
                    .collect();
                let (db, tx) = database.ok_or_else(|| {
                    let text = "the results of groups need a database";
                    Error::new(ErrorKind::InvalidState, text)
                })?;
                return groups.results(db, tx, &stored, rows.most_bytes());
            }
            ValueEncoding::Serde(serde) => {
                let bytes: ArrayRef = Arc::new(values.collect::<BinaryArray>());
                vec![match serde {
                    Some(serde) => serde.decode(&[bytes], SerdeSide::Value, "values", None)?,
                    None => bytes,
                }]
            }
            ValueEncoding::Nothing => Vec::new(),
        };
        Ok((columns, rows.len() - start))
    }
}

/// Returns the columns of the newest version, and the codec of all versions.
fn payload_codec(versions: &[Vec<Field>]) -> Result<(Vec<Field>, PayloadCodec)> {
    let fields = versions.last().cloned().unwrap_or_default();
    let mut codec = PayloadCodec::new(&fields)?;
    let newest = u16::try_from(versions.len().saturating_sub(1)).unwrap_or(u16::MAX);
    codec.set_versions(newest, versions)?;
    Ok((fields, codec))
}

fn payload_of(left_row: &[u8]) -> Result<&[u8]> {
    StoredLeftRow::decode(left_row)
        .map(|row| row.payload)
        .ok_or_else(|| Error::new(ErrorKind::Serialization, "a stored left row is damaged"))
}
