//! The join's settings, checked against the input's columns (`rows/layout.rs`), and where the
//! result's come from.

use std::collections::BTreeMap;

use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::spec::{How, Spec};
use crate::operator::Output;
use crate::operator::rows;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// What the join does and what comes out.
pub struct Layout {
    pub how: How,
    pub output: Output,
    /// How long left rows are held back: microseconds.
    pub grace: i64,
    /// Left rows wait from one epoch to the next.
    pub holds: bool,
    history_retention: i64,
}

impl Layout {
    /// Checks the settings against the input's columns.
    ///
    /// # Errors
    /// `InvalidValue` for an index or a retention that cannot be.
    pub fn new(spec: &Spec, rows: &rows::Layout) -> Result<Self> {
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
            output: Output::new("join_asof", &spec.output, rows)?,
            grace: spec.grace,
            holds: spec.grace > 0 && !spec.last,
            history_retention: spec.history_retention,
        })
    }

    /// What the root remembers of the join.
    pub fn meta(&self, rows: &rows::Layout, first_epoch: Epoch) -> OperatorMeta {
        let mut settings = BTreeMap::from([(
            "history_retention".to_owned(),
            Value::from(self.history_retention),
        )]);
        if self.grace > 0 {
            settings.insert("grace".to_owned(), Value::from(self.grace));
        }
        rows.meta(
            "join_asof",
            rows::Sides {
                left: self.grace > 0,
                right: true,
            },
            settings,
            first_epoch,
        )
    }
}
