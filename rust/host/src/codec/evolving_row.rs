//! Stored payloads: rows whose columns may change when the query restarts.
//!
//! ```text
//! payload   version of the columns (arrow-row of a UInt16: 01 | 2 bytes) | row of the columns
//! ```
//!
//! The root stores the columns of every version. A row of another version is decoded by column
//! name: a column that the row lacks is null, and a column that the query no longer has is dropped.
//! The stored bytes do not change.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt16Array, new_null_array};
use arrow_schema::{DataType, Field};
use arrow_select::interleave::interleave;
use holdfast_core::{Error, ErrorKind, Result};

use crate::codec::row::{EncodedRows, RowCodec};

/// Encodes payloads with an operator's current columns, and decodes those of all versions.
pub struct PayloadCodec {
    version: u16,
    fields: Vec<Field>,
    codec: RowCodec,
    /// Versions other than the current one.
    others: BTreeMap<u16, ColumnVersion>,
}

/// How rows of another version are decoded.
struct ColumnVersion {
    codec: RowCodec,
    /// The index of each current column in that version's columns.
    indices: Vec<Option<usize>>,
}

impl PayloadCodec {
    /// A codec for columns of these fields, as version 0.
    ///
    /// # Errors
    /// As [`RowCodec::new`].
    pub fn new(fields: &[Field]) -> Result<Self> {
        Ok(Self {
            version: 0,
            fields: fields.to_vec(),
            codec: versioned(fields)?,
            others: BTreeMap::new(),
        })
    }

    /// Sets the columns of all versions, indexed by version. `version` is the current one.
    ///
    /// # Errors
    /// As [`RowCodec::new`].
    pub fn set_versions(&mut self, version: u16, versions: &[Vec<Field>]) -> Result<()> {
        self.version = version;
        self.others.clear();
        for (number, fields) in (0..).zip(versions).filter(|(number, _)| *number != version) {
            let indices = self
                .fields
                .iter()
                .map(|ours| {
                    fields
                        .iter()
                        .position(|theirs| theirs.name() == ours.name())
                })
                .collect();
            // A name has the same type in all versions. The current field comes from Spark and the
            // other one from text, so the current one is used.
            let ours = |theirs: &Field| {
                self.fields
                    .iter()
                    .find(|ours| ours.name() == theirs.name())
                    .unwrap_or(theirs)
                    .clone()
            };
            let fields: Vec<Field> = fields.iter().map(ours).collect();
            self.others.insert(
                number,
                ColumnVersion {
                    codec: versioned(&fields)?,
                    indices,
                },
            );
        }
        Ok(())
    }

    /// Encodes payloads from these columns.
    ///
    /// # Errors
    /// `Serialization` if a column cannot be encoded.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<EncodedRows> {
        let version: ArrayRef = Arc::new(UInt16Array::from_value(self.version, rows));
        let columns: Vec<ArrayRef> = once(version).chain(columns.iter().cloned()).collect();
        self.codec.encode(&columns)
    }

    /// Decodes payloads into columns. `None` becomes a row of nulls.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not payloads of a known version.
    pub fn decode<'a>(
        &'a self,
        rows: impl IntoIterator<Item = Option<&'a [u8]>>,
    ) -> Result<Vec<ArrayRef>> {
        let rows: Vec<Option<&[u8]>> = rows.into_iter().collect();
        let versions = rows
            .iter()
            .map(|row| row.map_or(Ok(self.version), version_of))
            .collect::<Result<Vec<u16>>>()?;
        if versions.iter().all(|version| *version == self.version) {
            return self.decode_as(self.version, rows);
        }
        // Decode the rows of each version together, then interleave them in their input order.
        let (mut decoded, mut places) = (Vec::new(), vec![(0, 0); rows.len()]);
        for (part, version) in versions
            .iter()
            .copied()
            .collect::<BTreeSet<u16>>()
            .into_iter()
            .enumerate()
        {
            let mut of_version = Vec::new();
            for (row, _) in versions
                .iter()
                .enumerate()
                .filter(|(_, other)| **other == version)
            {
                places[row] = (part, of_version.len());
                of_version.push(rows[row]);
            }
            decoded.push(self.decode_as(version, of_version)?);
        }
        let columns = (0..self.fields.len()).map(|column| {
            let arrays: Vec<&dyn Array> = decoded
                .iter()
                .map(|part: &Vec<ArrayRef>| part[column].as_ref())
                .collect();
            interleave(&arrays, &places).map_err(|error| {
                Error::new(ErrorKind::Serialization, format!("stored values: {error}"))
            })
        });
        columns.collect()
    }

    fn decode_as<'a>(&'a self, version: u16, rows: Vec<Option<&'a [u8]>>) -> Result<Vec<ArrayRef>> {
        let count = rows.len();
        if version == self.version {
            return Ok(self.codec.decode(rows)?.split_off(1));
        }
        let other = self.others.get(&version).ok_or_else(|| {
            let text = format!(
                "a stored value has columns of version {version}, which the root does not have"
            );
            Error::new(ErrorKind::Serialization, text)
        })?;
        let columns = other.codec.decode(rows)?.split_off(1);
        let current = self.fields.iter().zip(&other.indices);
        Ok(current
            .map(|(field, index)| {
                index.map_or_else(
                    || new_null_array(field.data_type(), count),
                    |index| columns[index].clone(),
                )
            })
            .collect())
    }
}

fn versioned(fields: &[Field]) -> Result<RowCodec> {
    let version = Field::new("version", DataType::UInt16, false);
    RowCodec::new(once(&version).chain(fields))
}

fn version_of(row: &[u8]) -> Result<u16> {
    match row {
        [1, high, low, ..] => Ok(u16::from_be_bytes([*high, *low])),
        _ => Err(Error::new(
            ErrorKind::Serialization,
            "a stored value has no version of its columns: it is damaged",
        )),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};

    use super::*;

    fn field(name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true)
    }

    /// Returns the columns of three versions: `rate`; `source` and `rate`; `source`.
    fn versions() -> Vec<Vec<Field>> {
        let (rate, source) = (
            field("rate", DataType::Int64),
            field("source", DataType::Utf8),
        );
        vec![vec![rate.clone()], vec![source.clone(), rate], vec![source]]
    }

    fn codec(version: u16) -> PayloadCodec {
        let mut codec = PayloadCodec::new(&versions()[usize::from(version)]).expect("supported");
        codec.set_versions(version, &versions()).expect("supported");
        codec
    }

    fn column(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from(values))
    }

    fn text(values: Vec<Option<&str>>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }

    #[test]
    fn stored_bytes_never_change() {
        let rows = codec(1)
            .encode(&[text(vec![Some("ecb")]), column(vec![Some(7)])], 1)
            .expect("encodes");
        let hex: String = rows
            .get(0)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "010001026563620000000000030180000000000000 07".replace(' ', "")
        );
    }

    #[test]
    fn rows_of_all_versions_are_decoded_by_name_in_input_order() {
        let old = codec(0)
            .encode(&[column(vec![Some(1), Some(2)])], 2)
            .expect("encodes");
        let new = codec(1)
            .encode(&[text(vec![Some("ecb")]), column(vec![Some(3)])], 1)
            .expect("encodes");
        let rows = [Some(old.get(1)), None, Some(new.get(0)), Some(old.get(0))];
        let decoded = codec(1).decode(rows).expect("decodes");
        assert_eq!(&decoded[0], &text(vec![None, None, Some("ecb"), None]));
        assert_eq!(&decoded[1], &column(vec![Some(2), None, Some(3), Some(1)]));
        let decoded = codec(2).decode(rows).expect("decodes");
        assert_eq!(decoded, [text(vec![None, None, Some("ecb"), None])]);
        // An older version of the query reads rows of a newer one.
        assert_eq!(
            codec(0).decode(rows).expect("decodes"),
            [column(vec![Some(2), None, Some(3), Some(1)])]
        );
    }

    #[test]
    fn malformed_payload_is_an_error() {
        let future = codec(2).encode(&[text(vec![None])], 1).expect("encodes");
        let alone = PayloadCodec::new(&versions()[0]).expect("supported");
        for bytes in [&b""[..], b"\x00\x00\x00", b"\x01\x00", future.get(0)] {
            assert_eq!(
                alone.decode([Some(bytes)]).expect_err("no payload").kind(),
                ErrorKind::Serialization
            );
        }
    }
}
