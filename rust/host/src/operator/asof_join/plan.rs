//! The join's settings, checked against the input's columns.

use std::collections::BTreeMap;

use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::spec::{AsofJoinKind, AsofJoinSpec};
use crate::operator::input::{InputLayout, StoredSides};
use crate::operator::output::OutputColumns;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The checked settings of the join, and its result's columns.
pub struct AsofJoinPlan {
    /// Whether left rows without a match go out.
    pub how: AsofJoinKind,
    /// The result's columns.
    pub output: OutputColumns,
    /// How long left rows wait, in microseconds.
    pub grace: i64,
    /// Whether left rows wait from one epoch to the next.
    pub waits: bool,
    history_retention: i64,
}

impl AsofJoinPlan {
    /// Checks the settings against the input's columns.
    ///
    /// # Errors
    /// `InvalidValue` names an index, a retention or a grace that is out of range.
    pub fn new(spec: &AsofJoinSpec, layout: &InputLayout) -> Result<Self> {
        if spec.history_retention < 0 {
            let text = format!(
                "join_asof: history_retention is negative ({})",
                spec.history_retention
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        if spec.grace < 0 || spec.grace > spec.history_retention {
            let text = format!(
                "join_asof: grace is {}; it must be from 0 to history_retention, {}",
                spec.grace, spec.history_retention
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        Ok(Self {
            how: spec.how,
            output: OutputColumns::new("join_asof", &spec.output, layout)?,
            grace: spec.grace,
            waits: spec.grace > 0 && !spec.last,
            history_retention: spec.history_retention,
        })
    }

    /// What the root records of the join.
    pub fn meta(&self, layout: &InputLayout, first_epoch: Epoch) -> OperatorMeta {
        let mut settings = BTreeMap::from([(
            "history_retention".to_owned(),
            Value::from(self.history_retention),
        )]);
        if self.grace > 0 {
            settings.insert("grace".to_owned(), Value::from(self.grace));
        }
        let sides = StoredSides {
            left: self.grace > 0,
            right: true,
        };
        layout.meta("join_asof", sides, settings, first_epoch)
    }
}
