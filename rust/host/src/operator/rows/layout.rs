//! The columns of an operator's input.
//!
//! In this order: `pid` int32 · `side` bool (true: left, the stream; false: right, the table) ·
//! `deleted` bool, nullable (a right row that ends the value) · `t` timestamp · key columns · left
//! payload (null on right rows) · right payload (null on left rows). An operator of one side has
//! left rows only. A row whose `side` is null is a heartbeat (`gate.rs`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use holdfast_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::codec::evolving_row::PayloadCodec;
use crate::codec::key::KeyCodec;
use crate::codec::row::RowCodec;
use crate::protocol::Epoch;
use crate::root::{Column, OperatorMeta, PayloadSchema, StoredOperator};

pub const PID: usize = 0;
pub const SIDE: usize = 1;
pub const DELETED: usize = 2;
/// Where the time lies.
pub const TIME: usize = 3;
const FIXED: usize = 4;

/// What the driver says about an operator's input: the user's names of its columns.
#[derive(Debug, Clone, Deserialize)]
pub struct RowsSpec {
    /// The key's columns.
    pub keys: Vec<String>,
    /// The left side's payload columns.
    pub left: Vec<String>,
    /// The right side's payload columns.
    #[serde(default)]
    pub right: Vec<String>,
    /// The columns with the rows' times, of each side; none if they have none.
    #[serde(default)]
    pub times: Vec<String>,
    /// Left payload columns that order rows of equal times.
    #[serde(default)]
    pub order_left: Vec<usize>,
    /// Right payload columns that order rows of equal times.
    #[serde(default)]
    pub order_right: Vec<usize>,
}

impl RowsSpec {
    /// Input columns under the user's names.
    pub fn named(&self, schema: &Schema) -> Schema {
        let fixed = schema
            .fields()
            .iter()
            .take(FIXED)
            .map(|field| Field::clone(field));
        let named = self.keys.iter().chain(&self.left).chain(&self.right);
        let others = schema
            .fields()
            .iter()
            .skip(FIXED)
            .zip(named)
            .map(|(field, name)| Field::clone(field).with_name(name));
        Schema::new(fixed.chain(others).collect::<Vec<Field>>())
    }
}

/// The sides of which an operator keeps rows as they came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sides {
    /// The left one, or the only one.
    pub left: bool,
    /// The right one.
    pub right: bool,
}

/// Where each column lies, and how rows are encoded.
pub struct Layout {
    /// The key's columns.
    pub keys: Range<usize>,
    /// The left payload.
    pub left: Range<usize>,
    /// The right payload.
    pub right: Range<usize>,
    /// The time's type.
    pub time_type: DataType,
    /// The time as the root remembers it.
    time: Option<Column>,
    /// Of the key columns.
    pub key_codec: KeyCodec,
    /// Of the left payload.
    pub left_codec: PayloadCodec,
    /// Of the right payload.
    pub right_codec: PayloadCodec,
    /// Of the whole row but `pid`, for ties and digests.
    pub(super) content_codec: RowCodec,
    pub(super) order_left: Vec<usize>,
    pub(super) order_right: Vec<usize>,
    pub(super) order_left_codec: RowCodec,
    pub(super) order_right_codec: RowCodec,
    fields: Vec<Field>,
}

impl Layout {
    /// Checks the input's columns against the settings of an operator of this kind.
    ///
    /// # Errors
    /// `InvalidValue` for a number of columns or an index that cannot be, `InvalidType` for a
    /// column's type.
    pub fn new(kind: &str, spec: &RowsSpec, schema: &Schema) -> Result<Self> {
        let keys = FIXED..FIXED + spec.keys.len();
        let left = keys.end..keys.end + spec.left.len();
        let right = left.end..left.end + spec.right.len();
        let wrong = |what: String| Error::new(ErrorKind::InvalidValue, format!("{kind}: {what}"));
        if schema.fields().len() != right.end {
            return Err(wrong(format!(
                "its input has {} columns where {} belong",
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
        let order = |indices: &[usize], payload: &Range<usize>| -> Result<Vec<usize>> {
            let place = |index: &usize| {
                let column = payload.start + index;
                payload
                    .contains(&column)
                    .then_some(column)
                    .ok_or_else(|| wrong(format!("order_by column {index} is not there")))
            };
            indices.iter().map(place).collect()
        };
        let (order_left, order_right) = (
            order(&spec.order_left, &left)?,
            order(&spec.order_right, &right)?,
        );
        let picked = |columns: &[usize]| {
            columns
                .iter()
                .map(|column| schema.field(*column).clone())
                .collect::<Vec<Field>>()
        };
        // Under the user's names, for messages and for what the root remembers.
        let fields: Vec<Field> = spec
            .named(schema)
            .fields()
            .iter()
            .map(|field| Field::clone(field))
            .collect();
        Ok(Self {
            order_left_codec: RowCodec::new(&picked(&order_left))?,
            order_right_codec: RowCodec::new(&picked(&order_right))?,
            key_codec: KeyCodec::new(&fields[keys.clone()])?,
            left_codec: PayloadCodec::new(&fields[left.clone()])?,
            right_codec: PayloadCodec::new(&fields[right.clone()])?,
            content_codec: RowCodec::new(schema.fields()[SIDE..].iter().map(Arc::as_ref))?,
            time: (!spec.times.is_empty()).then(|| {
                Column::from(&schema.field(TIME).clone().with_name(spec.times.join(", ")))
            }),
            time_type: schema.field(TIME).data_type().clone(),
            order_left,
            order_right,
            keys,
            left,
            right,
            fields,
        })
    }

    /// A column under the user's name.
    pub fn field(&self, column: usize) -> &Field {
        &self.fields[column]
    }

    /// Columns as the root remembers them.
    pub fn columns(&self, columns: Range<usize>) -> Vec<Column> {
        self.fields[columns].iter().map(Column::from).collect()
    }

    /// What the root remembers of an operator that keeps rows of these sides by key.
    pub fn meta(
        &self,
        kind: &str,
        sides: Sides,
        settings: BTreeMap<String, Value>,
        first_epoch: Epoch,
    ) -> OperatorMeta {
        let side = |is_kept: bool, columns: &Range<usize>| {
            if is_kept {
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
                serdes: BTreeMap::new(),
            },
            settings,
            first_epoch,
        }
    }

    /// Takes what the root remembers of the payloads that are stored.
    ///
    /// # Errors
    /// `Restore` for a column's type that cannot be read.
    pub fn set_kept(&mut self, kept: &StoredOperator) -> Result<()> {
        let versions = |columns: &dyn Fn(usize) -> Vec<Column>| -> Result<Vec<Vec<Field>>> {
            (0..kept.payloads.len())
                .map(|version| columns(version).iter().map(Column::field).collect())
                .collect()
        };
        self.left_codec.set_versions(
            kept.version,
            &versions(&|version| kept.payloads[version].left.clone())?,
        )?;
        self.right_codec.set_versions(
            kept.version,
            &versions(&|version| kept.payloads[version].right.clone())?,
        )
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
            Layout::new("join_asof", spec, schema)
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
            error.to_string().contains("7 columns where 6 belong"),
            "{error}"
        );
    }

    #[test]
    fn columns_have_the_users_names() {
        let layout = Layout::new("join_asof", &spec(), &schema(MICROS)).expect("fits");
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
