//! The join's columns: those of its input (`rows/layout.rs`), and where the result's come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::spec::{How, Source, Spec};
use crate::operator::rows::{self, TIME};
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// Where each column of the result comes from.
pub struct Layout {
    pub how: How,
    pub output: Vec<Source>,
    pub output_schema: SchemaRef,
    history_retention: i64,
}

impl Layout {
    /// Checks the settings against the input's columns.
    ///
    /// # Errors
    /// `InvalidValue` for an index or a retention that cannot be.
    pub fn new(spec: &Spec, rows: &rows::Layout) -> Result<Self> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidValue, format!("join_asof: {what}"));
        if spec.history_retention < 0 {
            return Err(wrong(format!("history_retention is negative ({})", spec.history_retention)));
        }
        let output_fields = spec.output.iter().map(|column| {
            let (place, missing) = match column.source {
                Source::Key { index } => (rows.keys.start + index, index >= rows.keys.len()),
                Source::Time | Source::RightTime => (TIME, false),
                Source::Left { index } => (rows.left.start + index, index >= rows.left.len()),
                Source::Right { index } => (rows.right.start + index, index >= rows.right.len()),
            };
            if missing {
                return Err(wrong(format!("output column {:?} comes from {:?}, which is not there", column.name, column.source)));
            }
            Ok(rows.field(place).clone().with_name(&column.name).with_nullable(true))
        });
        Ok(Self {
            how: spec.how,
            output: spec.output.iter().map(|column| column.source).collect(),
            output_schema: Arc::new(Schema::new(output_fields.collect::<Result<Vec<Field>>>()?)),
            history_retention: spec.history_retention,
        })
    }

    /// What the root remembers of the join.
    pub fn meta(&self, rows: &rows::Layout, first_epoch: Epoch) -> OperatorMeta {
        OperatorMeta {
            kind: "join_asof".to_owned(),
            key: rows.columns(rows.keys.clone()),
            value: rows.columns(rows.right.clone()),
            settings: BTreeMap::from([("history_retention".to_owned(), Value::from(self.history_retention))]),
            first_epoch,
        }
    }
}
