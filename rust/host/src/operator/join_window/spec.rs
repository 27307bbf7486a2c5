//! Settings of a join within a window, as the request has them.

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::operator::input::RowsSpec;
use crate::operator::output::OutputColumn;

/// The store of left rows that wait.
pub const LEFT: &str = "left";
/// The store of right rows that wait.
pub const RIGHT: &str = "right";

/// The settings of a join within a window.
#[derive(Debug, Clone, Deserialize)]
pub struct JoinWindowSpec {
    /// The input's columns.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides' rows are emitted if they have no match.
    pub how: JoinWindowKind,
    /// How much earlier than a left row its matches may be, in microseconds.
    pub before: i64,
    /// How much later than a left row its matches may be, in microseconds.
    pub after: i64,
    /// How late a row may be, in microseconds.
    pub grace: i64,
    /// Whether no epoch follows this one, as for a static frame.
    #[serde(default)]
    pub last: bool,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// Which sides' rows are emitted, with nulls, if they have no match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are SQL's")]
pub enum JoinWindowKind {
    Inner,
    Left,
    Right,
    Outer,
}

impl JoinWindowKind {
    /// Whether rows of a side go out without a match.
    pub fn keeps_unmatched(self, left: bool) -> bool {
        match self {
            Self::Inner => false,
            Self::Left => left,
            Self::Right => !left,
            Self::Outer => true,
        }
    }
}

impl JoinWindowSpec {
    /// Checks the settings.
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

    /// The times between which the matches of a row of a side are, both inclusive.
    pub fn matches_of(&self, is_left: bool, time: i64) -> (i64, i64) {
        let (earlier, later) = if is_left {
            (self.before, self.after)
        } else {
            (self.after, self.before)
        };
        (time.saturating_sub(earlier), time.saturating_add(later))
    }

    /// The times, both inclusive, between which the waiting rows of a key's side are needed: those
    /// that new rows may match, and those of the same time as a new row of this side, which are in
    /// the same record as that row. `own` and `other` are the first and the last time of the new
    /// rows of this side and of the other one.
    pub fn needed(
        &self,
        is_left: bool,
        own: Option<(i64, i64)>,
        other: Option<(i64, i64)>,
    ) -> Option<(i64, i64)> {
        let matches = other.map(|(first, last)| {
            let (from, _) = self.matches_of(!is_left, first);
            let (_, to) = self.matches_of(!is_left, last);
            (from, to)
        });
        match (own, matches) {
            (Some(own), Some(matches)) => Some((own.0.min(matches.0), own.1.max(matches.1))),
            (own, matches) => own.or(matches),
        }
    }

    /// How long after its own time a row of a side may be matched.
    pub fn wait(&self, left: bool) -> i64 {
        if left { self.after } else { self.before }
    }
}
