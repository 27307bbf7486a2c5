//! Settings of a join of tables, as the request has them.

use std::collections::BTreeMap;

use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LEFT, RIGHT};
use crate::operator::OutputColumn;
use crate::operator::rows::RowsSpec;

/// What the driver says about the join.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides must be there.
    pub how: How,
    /// How far back both tables reach: microseconds.
    pub history_retention: i64,
    /// The left payload columns that are values: a row in which all are null deletes. None of them:
    /// no row does.
    pub left_values: Vec<usize>,
    /// The right payload columns that are values.
    pub right_values: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// The join's kind: which sides a row of the result must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Both.
    Inner,
    /// The left one.
    Left,
    /// Either.
    Outer,
}

impl How {
    /// What the state of a join of this kind depends on.
    pub fn settings(self, history_retention: i64) -> BTreeMap<String, Value> {
        let how = serde_json::to_value(self).unwrap_or_default();
        BTreeMap::from([
            (
                "history_retention".to_owned(),
                Value::from(history_retention),
            ),
            ("how".to_owned(), how),
        ])
    }

    /// Whether there is a row of the result with these sides.
    pub fn joins(self, left: bool, right: bool) -> bool {
        match self {
            Self::Inner => left && right,
            Self::Left => left,
            Self::Outer => left || right,
        }
    }
}

impl Spec {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// `InvalidValue` names the setting.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("join_table: {what}"),
            ))
        };
        if self.history_retention < 0 {
            return wrong(format!(
                "history_retention is negative ({})",
                self.history_retention
            ));
        }
        for (values, payload) in [
            (&self.left_values, &self.rows.left),
            (&self.right_values, &self.rows.right),
        ] {
            if let Some(value) = values.iter().find(|value| **value >= payload.len()) {
                return wrong(format!("value column {value} is not there"));
            }
        }
        Ok(())
    }

    /// The stores: each side's versions.
    pub fn stores(&self) -> Vec<StoreSpec> {
        [LEFT, RIGHT]
            .map(|name| StoreSpec::new(name, StoreKind::versioned(self.history_retention)))
            .to_vec()
    }
}
