//! The join's columns.
//!
//! Input, in this order: `pid` int32 · `side` bool (true: left, the stream; false: right, the table) · `deleted` bool,
//! nullable (a right row that ends the value) · `t` timestamp · key columns · left payload (null on right rows) · right
//! payload (null on left rows).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::spec::{How, Source, Spec};
use crate::key::KeyCodec;
use crate::protocol::Epoch;
use crate::root::{Column, OperatorMeta};
use crate::row::RowCodec;

pub const PID: usize = 0;
pub const SIDE: usize = 1;
pub const DELETED: usize = 2;
pub const TIME: usize = 3;
const FIXED: usize = 4;

/// Where each column lies, and how rows are encoded.
pub struct Layout {
    pub how: How,
    pub keys: Range<usize>,
    pub right: Range<usize>,
    /// The input column of each left payload column starts here.
    left: Range<usize>,
    /// Input columns that order rows of equal times, by side.
    pub order_left: Vec<usize>,
    pub order_right: Vec<usize>,
    pub key_codec: KeyCodec,
    pub value_codec: RowCodec,
    /// The whole row but `pid`, for ties and digests.
    pub content_codec: RowCodec,
    pub order_left_codec: RowCodec,
    pub order_right_codec: RowCodec,
    pub time_type: DataType,
    pub output: Vec<Source>,
    pub output_schema: SchemaRef,
    key_columns: Vec<Column>,
    value_columns: Vec<Column>,
    history_retention: i64,
}

impl Layout {
    /// Checks the input's columns against the settings.
    ///
    /// # Errors
    /// `InvalidValue` for a number of columns, an index or a retention that cannot be, `InvalidType` for a column's type.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        let keys = FIXED..FIXED + spec.keys;
        let left = keys.end..keys.end + spec.left.len();
        let right = left.end..left.end + spec.right.len();
        let wrong = |what: String| Error::new(ErrorKind::InvalidValue, format!("join_asof: {what}"));
        if schema.fields().len() != right.end {
            return Err(wrong(format!("its input has {} columns where {} belong", schema.fields().len(), right.end)));
        }
        if keys.is_empty() {
            return Err(wrong("it has no key column".to_owned()));
        }
        if spec.history_retention < 0 {
            return Err(wrong(format!("history_retention is negative ({})", spec.history_retention)));
        }
        expect(schema, PID, "int32", |t| *t == DataType::Int32)?;
        expect(schema, SIDE, "boolean", |t| *t == DataType::Boolean)?;
        expect(schema, DELETED, "boolean", |t| *t == DataType::Boolean)?;
        expect(schema, TIME, "a timestamp in microseconds", |t| matches!(t, DataType::Timestamp(TimeUnit::Microsecond, _)))?;
        let order = |indices: &[usize], payload: &Range<usize>| -> Result<Vec<usize>> {
            let place = |index: &usize| {
                let column = payload.start + index;
                payload.contains(&column).then_some(column).ok_or_else(|| wrong(format!("order_by column {index} is not there")))
            };
            indices.iter().map(place).collect()
        };
        let (order_left, order_right) = (order(&spec.order_left, &left)?, order(&spec.order_right, &right)?);
        let fields = |columns: &[usize]| columns.iter().map(|column| schema.field(*column).clone()).collect::<Vec<Field>>();
        let named = |columns: &Range<usize>, names: &[String]| -> Vec<Field> {
            columns.clone().zip(names).map(|(column, name)| schema.field(column).clone().with_name(name)).collect()
        };
        let key_fields = named(&keys, &key_names(spec));
        let value_fields = named(&right, &spec.right);
        let output_fields = spec.output.iter().map(|column| {
            let (place, missing) = match column.source {
                Source::Key { index } => (keys.start + index, index >= spec.keys),
                Source::Time | Source::RightTime => (TIME, false),
                Source::Left { index } => (left.start + index, index >= spec.left.len()),
                Source::Right { index } => (right.start + index, index >= spec.right.len()),
            };
            if missing {
                return Err(wrong(format!("output column {:?} comes from {:?}, which is not there", column.name, column.source)));
            }
            Ok(schema.field(place).clone().with_name(&column.name).with_nullable(true))
        });
        Ok(Self {
            how: spec.how,
            order_left_codec: RowCodec::new(&fields(&order_left))?,
            order_right_codec: RowCodec::new(&fields(&order_right))?,
            key_codec: KeyCodec::new(&key_fields)?,
            value_codec: RowCodec::new(&value_fields)?,
            content_codec: RowCodec::new(schema.fields()[SIDE..].iter().map(Arc::as_ref))?,
            time_type: schema.field(TIME).data_type().clone(),
            output: spec.output.iter().map(|column| column.source).collect(),
            output_schema: Arc::new(Schema::new(output_fields.collect::<Result<Vec<Field>>>()?)),
            key_columns: key_fields.iter().map(Column::from).collect(),
            value_columns: value_fields.iter().map(Column::from).collect(),
            history_retention: spec.history_retention,
            order_left,
            order_right,
            keys,
            left,
            right,
        })
    }

    /// The input column of a payload column of the left row.
    pub fn left_column(&self, index: usize) -> usize {
        self.left.start + index
    }

    /// What the root remembers of the join.
    pub fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        OperatorMeta {
            kind: "join_asof".to_owned(),
            key: self.key_columns.clone(),
            value: self.value_columns.clone(),
            settings: BTreeMap::from([("history_retention".to_owned(), Value::from(self.history_retention))]),
            first_epoch,
        }
    }
}

/// The user's names of the key columns, as far as the output tells them.
fn key_names(spec: &Spec) -> Vec<String> {
    let name = |index: usize| {
        let column = spec.output.iter().find(|column| column.source == Source::Key { index });
        column.map_or_else(|| format!("k{index}"), |column| column.name.clone())
    };
    (0..spec.keys).map(name).collect()
}

fn expect(schema: &Schema, column: usize, wanted: &str, fits: impl Fn(&DataType) -> bool) -> Result<()> {
    let field = schema.field(column);
    if fits(field.data_type()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidType,
        format!("join_asof: input column {column} ({}) has type {}, wanted {wanted}", field.name(), field.data_type()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(output: &str) -> Spec {
        let json = format!(
            r#"{{"keys": 1, "left": ["amount"], "right": ["rate"], "how": "left", "history_retention": 10, "output": [{output}]}}"#
        );
        serde_json::from_str(&json).expect("valid")
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

    fn refused(spec: &Spec, schema: &Schema) -> Error {
        Layout::new(spec, schema).err().expect("refused")
    }

    #[test]
    fn wrong_columns_are_named() {
        let error = refused(&spec(""), &schema(DataType::Utf8));
        assert_eq!(error.kind(), ErrorKind::InvalidType);
        assert!(error.to_string().contains("column 3 (t) has type Utf8"), "{error}");
        let error = refused(&spec(r#"{"name": "x", "from": "right", "index": 1}"#), &schema(MICROS));
        assert!(error.to_string().contains("\"x\""), "{error}");
        let error = refused(&Spec { order_right: vec![1], ..spec("") }, &schema(MICROS));
        assert!(error.to_string().contains("order_by column 1"), "{error}");
        let error = refused(&Spec { right: vec![], ..spec("") }, &schema(MICROS));
        assert!(error.to_string().contains("7 columns where 6 belong"), "{error}");
    }

    #[test]
    fn the_root_remembers_the_users_names() {
        let layout = Layout::new(&spec(r#"{"name": "currency", "from": "key", "index": 0}"#), &schema(MICROS)).expect("fits");
        let meta = layout.meta(Epoch(3));
        assert_eq!((meta.key[0].name.as_str(), meta.value[0].name.as_str()), ("currency", "rate"));
        assert_eq!((meta.value[0].data_type.as_str(), meta.first_epoch), ("Float64", Epoch(3)));
    }
}
