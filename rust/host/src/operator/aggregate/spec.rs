//! Settings of an aggregation, as the request has them.

use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec};
use serde::Deserialize;

use super::windows::{GROUPS, HoppingWindow};
use super::{ITEMS, PROGRESS};
use crate::operator::rows::RowsSpec;
use crate::operator::{OutputColumn, by_time};

/// What the driver says about the aggregation.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns; all rows are left ones.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// What is computed for each group, in the order of the result's columns.
    pub aggregates: Vec<Aggregate>,
    /// The windows that a group is cut into; none: one group a key.
    #[serde(default)]
    pub window: Option<Window>,
    /// Rows have a time of their own.
    #[serde(default)]
    pub timed: bool,
    /// How much later than the stream time a row (or a window's end) may be: microseconds; none:
    /// any.
    #[serde(default)]
    pub grace: Option<i64>,
    /// When a group's result is emitted.
    #[serde(default)]
    pub emit: Emit,
    /// How long after the stream time windows are kept: microseconds; none: as long as rows of them
    /// are taken.
    #[serde(default)]
    pub retention: Option<i64>,
    /// No epoch follows this one: a static frame.
    #[serde(default)]
    pub last: bool,
    /// The columns of the rows that the user's own functions get.
    #[serde(default, rename = "output")]
    pub columns: Vec<OutputColumn>,
}

/// One column of the result.
#[derive(Debug, Clone, Deserialize)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// What is computed.
    pub function: Function,
    /// Of which payload column; none: of the row itself (`count`, the user's own).
    #[serde(default)]
    pub column: Option<usize>,
    /// What the user's own function keeps and gives, for what the root remembers.
    #[serde(default)]
    pub declared: Option<String>,
}

/// The built-in functions, with Spark SQL's meaning: nulls are left out by all but `count` of rows,
/// `first` and `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are Spark's")]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    First,
    Last,
    CountDistinct,
    CollectList,
    CollectSet,
    /// The user's own, which runs in the worker.
    Own,
}

impl Function {
    /// Its name, Spark's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::First => "first",
            Self::Last => "last",
            Self::CountDistinct => "count_distinct",
            Self::CollectList => "collect_list",
            Self::CollectSet => "collect_set",
            Self::Own => "aggregator",
        }
    }
}

/// The windows that a group is cut into. Durations are microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Window {
    /// Of one length, at fixed places.
    Hopping(HoppingWindow),
    /// Of one length, beginning and ending at rows.
    Sliding {
        /// From a window's first moment to its last one, both of which are in it.
        length: i64,
    },
    /// Between pauses.
    Session {
        /// How long nothing comes after a session's last row.
        gap: i64,
    },
}

impl Window {
    /// How long after its time a row may still be of use, the grace left out.
    fn reach(self) -> i64 {
        match self {
            Self::Hopping(window) => window.length,
            // The windows that it is in, and the one that begins right behind it.
            Self::Sliding { length } => length.saturating_add(2),
            // A row at the very end of a session is of it.
            Self::Session { gap } => gap.saturating_add(1),
        }
    }

    /// As the root remembers them.
    pub fn settings(self) -> Vec<(&'static str, i64)> {
        match self {
            Self::Hopping(HoppingWindow { length, slide }) => {
                vec![("length", length), ("slide", slide)]
            }
            Self::Sliding { length } => vec![("sliding", length)],
            Self::Session { gap } => vec![("gap", gap)],
        }
    }
}

/// When results come out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emit {
    /// In each epoch, those of the groups that it changed.
    #[default]
    Update,
    /// Once, when no row can change the window any more.
    Close,
}

impl Spec {
    /// How late a row may be: microseconds. Windows that are kept for a time only take rows for
    /// that time only.
    pub fn grace(&self) -> Option<i64> {
        let kept = self
            .window
            .zip(self.retention)
            .map(|(window, retention)| retention.saturating_sub(window.reach()).max(0));
        self.grace.or(kept)
    }

    /// Whether a function is the user's own.
    pub fn has_own(&self) -> bool {
        self.aggregates
            .iter()
            .any(|aggregate| aggregate.function == Function::Own)
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// `InvalidValue` names the setting.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("aggregate: {what}"),
            ))
        };
        match self.window {
            Some(Window::Hopping(HoppingWindow { length, slide }))
                if !(0 < slide && slide <= length) =>
            {
                return wrong(format!(
                    "a window of {length} microseconds that slides by {slide}; it must slide by 1 \
                     to its length"
                ));
            }
            Some(Window::Sliding { length: span } | Window::Session { gap: span }) if span <= 0 => {
                return wrong(format!(
                    "a window of {span} microseconds; it must last at least 1"
                ));
            }
            _ => {}
        }
        if self.window.is_none() && self.emit == Emit::Close {
            return wrong("emit is close, but without windows nothing closes".to_owned());
        }
        if self.window.is_some() && !self.timed {
            return wrong("windows need a time column".to_owned());
        }
        match self
            .aggregates
            .iter()
            .find(|aggregate| match aggregate.column {
                Some(column) => column >= self.rows.left.len(),
                None => !matches!(aggregate.function, Function::Count | Function::Own),
            }) {
            Some(aggregate) => wrong(format!(
                "column {:?} is computed of {:?}, which is not there",
                aggregate.name, aggregate.column
            )),
            None => Ok(()),
        }
    }

    /// The stores that it keeps: the groups' states, single values of some functions, the stream
    /// time.
    pub fn stores(&self) -> Vec<StoreSpec> {
        // Windows that come out as they close are deleted then.
        let window = self.window.filter(|_| self.emit == Emit::Update);
        let kept = window.map_or(i64::MAX, |window| {
            let needed = self
                .grace()
                .map_or(i64::MAX, |grace| window.reach().saturating_add(grace));
            needed.max(self.retention.unwrap_or(0))
        });
        let groups = match self.window {
            None => StoreKind::KeyValue,
            Some(Window::Hopping(window)) => by_time(kept, window.length),
            Some(Window::Sliding { .. }) => by_time(kept, 0),
            Some(Window::Session { .. }) => StoreKind::Session { retention: kept },
        };
        [
            (GROUPS, groups),
            (ITEMS, StoreKind::KeyValue),
            (PROGRESS, StoreKind::KeyValue),
        ]
        .map(|(name, kind)| StoreSpec::new(name, kind))
        .to_vec()
    }
}
