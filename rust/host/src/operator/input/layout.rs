//! The input's columns, checked against an operator's settings, and the codecs of its rows.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::columns::{DELETED, FIXED, PID, RowsSpec, SIDE, TIME};
use super::order_columns::{ContentColumns, OrderColumns, SideOrder};
use crate::codec::evolving_row::PayloadCodec;
use crate::codec::key::KeyCodec;
use crate::protocol::Epoch;
use crate::root::{Column, OperatorMeta, PayloadSchema, StoredOperator};

/// The sides whose rows an operator stores as they arrived.
#[derive(Debug, Clone, Copy)]
pub struct StoredSides {
    /// The left side, or the only one.
    pub left: bool,
    /// The right side.
    pub right: bool,
}

impl StoredSides {
    /// Neither side.
    pub const NONE: Self = Self {
        left: false,
        right: false,
    };
    /// The left side, or the only one.
    pub const LEFT: Self = Self {
        left: true,
        right: false,
    };
    /// Both sides.
    pub const BOTH: Self = Self {
        left: true,
        right: true,
    };
}

/// Where each column is, and how rows are encoded.
pub struct InputLayout {
    /// The key's columns.
    pub keys: Range<usize>,
    /// The left payload.
    pub left: Range<usize>,
    /// The right payload.
    pub right: Range<usize>,
    /// The time column as the root records it.
    time: Option<Column>,
    /// The codec of the key columns.
    pub key_codec: KeyCodec,
    /// The codec of the left payload.
    pub left_codec: PayloadCodec,
    /// The codec of the right payload.
    pub right_codec: PayloadCodec,
    /// All columns of a row but `pid`, for ties and digests; none for [`Self::without_content`].
    pub(super) content: Option<ContentColumns>,
    /// The columns that order rows of equal times.
    pub(super) order: OrderColumns,
    fields: Vec<Field>,
}

impl InputLayout {
    /// Checks the input's columns against the settings of an operator of this kind.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong number of columns or an index out of range, `InvalidType` for a
    /// column's type.
    pub fn new(kind: &str, spec: &RowsSpec, schema: &Schema) -> Result<Self> {
        let keys = FIXED..FIXED + spec.keys.len();
        let left = keys.end..keys.end + spec.left.len();
        let right = left.end..left.end + spec.right.len();
        let wrong = |what: String| Error::new(ErrorKind::InvalidValue, format!("{kind}: {what}"));
        if schema.fields().len() != right.end {
            return Err(wrong(format!(
                "its input has {} columns, expected {}",
                schema.fields().len(),
                right.end
            )));
        }
        if keys.is_empty() {
            return Err(wrong("it has no key column".to_owned()));
        }
        let expect = |column: usize, wanted: &str, fits: &dyn Fn(&DataType) -> bool| {
            let field = schema.field(column);
            if fits(field.data_type()) {
                return Ok(());
            }
            let text = format!(
                "{kind}: input column {column} ({}) has type {}, wanted {wanted}",
                field.name(),
                field.data_type()
            );
            Err(Error::new(ErrorKind::InvalidType, text))
        };
        expect(PID, "int32", &|t| *t == DataType::Int32)?;
        expect(SIDE, "boolean", &|t| *t == DataType::Boolean)?;
        expect(DELETED, "boolean", &|t| *t == DataType::Boolean)?;
        expect(TIME, "a timestamp in microseconds", &|t| {
            matches!(t, DataType::Timestamp(TimeUnit::Microsecond, _))
        })?;
        let order = OrderColumns {
            left: SideOrder::new(kind, &spec.order_left, &left, schema)?,
            right: SideOrder::new(kind, &spec.order_right, &right, schema)?,
        };
        // Columns under the user's names, for messages and for the root.
        let fields: Vec<Field> = spec
            .named(schema)
            .fields()
            .iter()
            .map(|field| Field::clone(field))
            .collect();
        Ok(Self {
            key_codec: KeyCodec::new(&fields[keys.clone()])?,
            left_codec: PayloadCodec::new(&fields[left.clone()])?,
            right_codec: PayloadCodec::new(&fields[right.clone()])?,
            content: Some(ContentColumns::new(spec, schema)?),
            time: (!spec.times.is_empty()).then(|| {
                Column::from(&schema.field(TIME).clone().with_name(spec.times.join(", ")))
            }),
            order,
            keys,
            left,
            right,
            fields,
        })
    }

    /// Returns the layout for an operator whose result does not depend on the order of rows with
    /// equal times. The content of its rows is not encoded, so they have no content hashes.
    #[must_use]
    pub fn without_content(self) -> Self {
        Self {
            content: None,
            ..self
        }
    }

    /// Returns the greatest time of the rows of a batch that have a key.
    pub fn newest_time(&self, batch: &RecordBatch) -> Option<i64> {
        let keys = &batch.columns()[self.keys.clone()];
        let nulls = keys.iter().fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let times = batch
            .column(TIME)
            .as_primitive::<TimestampMicrosecondType>();
        let has_key = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        let rows = (0..batch.num_rows()).filter(has_key);
        let timed = rows.filter(|row| times.is_valid(*row));
        timed.map(|row| times.value(row)).max()
    }

    /// The time's type.
    pub fn time_type(&self) -> &DataType {
        self.fields[TIME].data_type()
    }

    /// A column under the user's name.
    pub fn field(&self, column: usize) -> &Field {
        &self.fields[column]
    }

    /// Columns as the root records them.
    pub fn columns(&self, columns: Range<usize>) -> Vec<Column> {
        self.fields[columns].iter().map(Column::from).collect()
    }

    /// Returns what the root records of an operator that stores rows of these sides by key.
    pub fn meta(
        &self,
        kind: &str,
        sides: StoredSides,
        settings: BTreeMap<String, Value>,
        first_epoch: Epoch,
    ) -> OperatorMeta {
        let side = |is_stored: bool, columns: &Range<usize>| {
            if is_stored {
                self.columns(columns.clone())
            } else {
                Vec::new()
            }
        };
        OperatorMeta {
            kind: kind.to_owned(),
            key: self.columns(self.keys.clone()),
            time: self.time.clone(),
            value: Vec::new(),
            payload: PayloadSchema {
                left: side(sides.left, &self.left),
                right: side(sides.right, &self.right),
                // `OperatorRequest::meta` sets the rest.
                ..PayloadSchema::default()
            },
            settings,
            first_epoch,
        }
    }

    /// Sets the columns of the stored payloads, as the root has recorded them.
    ///
    /// # Errors
    /// `Restore` for a column's type that cannot be read.
    pub fn set_stored_payloads(&mut self, stored: &StoredOperator) -> Result<()> {
        let versions = |columns: fn(&PayloadSchema) -> &[Column]| -> Result<Vec<Vec<Field>>> {
            let stored = stored.versions.iter();
            stored
                .map(|version| {
                    columns(&version.payload)
                        .iter()
                        .map(Column::field)
                        .collect()
                })
                .collect()
        };
        let left = versions(|payload| payload.left.as_slice())?;
        let right = versions(|payload| payload.right.as_slice())?;
        self.left_codec.set_versions(stored.version, &left)?;
        self.right_codec.set_versions(stored.version, &right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RowsSpec {
        serde_json::from_str(r#"{"keys": ["currency"], "left": ["amount"], "right": ["rate"]}"#)
            .expect("valid")
    }

    fn schema(time: DataType) -> Schema {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        Schema::new(vec![
            field("pid", DataType::Int32),
            field("side", DataType::Boolean),
            field("deleted", DataType::Boolean),
            field("t", time),
            field("k0", DataType::Utf8),
            field("l0", DataType::Int64),
            field("r0", DataType::Float64),
        ])
    }

    const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    #[test]
    fn wrong_columns_are_named() {
        let refused = |spec: &RowsSpec, schema: &Schema| {
            InputLayout::new("join_asof", spec, schema)
                .err()
                .expect("refused")
        };
        let error = refused(&spec(), &schema(DataType::Utf8));
        assert_eq!(error.kind(), ErrorKind::InvalidType);
        assert!(
            error.to_string().contains("column 3 (t) has type Utf8"),
            "{error}"
        );
        let error = refused(
            &RowsSpec {
                order_right: vec![1],
                ..spec()
            },
            &schema(MICROS),
        );
        assert!(error.to_string().contains("order_by column 1"), "{error}");
        let error = refused(
            &RowsSpec {
                right: vec![],
                ..spec()
            },
            &schema(MICROS),
        );
        assert!(
            error.to_string().contains("7 columns, expected 6"),
            "{error}"
        );
    }

    #[test]
    fn columns_have_the_users_names() {
        let layout = InputLayout::new("join_asof", &spec(), &schema(MICROS)).expect("fits");
        let names = |columns: Range<usize>| {
            layout
                .columns(columns)
                .into_iter()
                .map(|column| column.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (names(layout.keys.clone()), names(layout.right.clone())),
            (vec!["currency".to_owned()], vec!["rate".to_owned()])
        );
    }
}
