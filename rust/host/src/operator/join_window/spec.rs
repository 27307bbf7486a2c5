//! Settings of a join within a window, as the request has them.

use holdfast_core::{Error, ErrorKind, Result, StoreSpec};
use serde::{Deserialize, Serialize};

use super::{LEFT, RIGHT};
use crate::operator::rows::RowsSpec;
use crate::operator::{OutputColumn, by_time};

/// What the driver says about the join.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// What becomes of rows without a match.
    pub how: How,
    /// How much earlier than a left row its matches may be: microseconds.
    pub before: i64,
    /// How much later than a left row its matches may be: microseconds.
    pub after: i64,
    /// How late a row may be: microseconds.
    pub grace: i64,
    /// No epoch follows this one: a static frame.
    #[serde(default)]
    pub last: bool,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// The join's kind: of which sides rows without a match go out, with nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are SQL's")]
pub enum How {
    Inner,
    Left,
    Right,
    Outer,
}

impl How {
    /// Whether rows of a side go out without a match.
    pub fn keeps(self, left: bool) -> bool {
        match self {
            Self::Inner => false,
            Self::Left => left,
            Self::Right => !left,
            Self::Outer => true,
        }
    }
}

impl Spec {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// `InvalidValue` names the setting.
    pub fn check(&self) -> Result<()> {
        for (name, span) in [
            ("before", self.before),
            ("after", self.after),
            ("grace", self.grace),
        ] {
            if span < 0 {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    format!("join_window: {name} is negative ({span})"),
                ));
            }
        }
        Ok(())
    }

    /// How long after its own time a row of a side may be matched.
    pub fn waits(&self, left: bool) -> i64 {
        if left { self.after } else { self.before }
    }

    /// The stores: the rows of each side that wait.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let store = |name, left| {
            let retention = self
                .waits(left)
                .saturating_add(self.grace)
                .saturating_add(1);
            StoreSpec::new(name, by_time(retention, 0))
        };
        vec![store(LEFT, true), store(RIGHT, false)]
    }
}
