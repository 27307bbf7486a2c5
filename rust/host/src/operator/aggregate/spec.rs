//! Settings of an aggregation, as the request has them.

use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec};
use serde::Deserialize;

use super::{GROUPS, ITEMS, PROGRESS};
use crate::operator::rows::RowsSpec;

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
    /// How much later than the stream time a row (or a window's end) may be: microseconds; none: any.
    #[serde(default)]
    pub grace: Option<i64>,
    /// When a group's result is emitted.
    #[serde(default)]
    pub emit: Emit,
    /// How long after the stream time windows are kept: microseconds; none: as long as rows of them are taken.
    #[serde(default)]
    pub retention: Option<i64>,
    /// No epoch follows this one: a static frame.
    #[serde(default)]
    pub last: bool,
}

/// One column of the result.
#[derive(Debug, Clone, Deserialize)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// What is computed.
    pub function: Function,
    /// Of which payload column; none: of the row itself (`count`).
    #[serde(default)]
    pub column: Option<usize>,
}

/// The built-in functions, with Spark SQL's meaning: nulls are left out by all but `count` of rows, `first` and `last`.
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
        }
    }
}

/// Windows of one length: tumbling where they do not overlap, else hopping. They start at multiples of `slide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Window {
    /// From a window's start to its end, which is not in it: microseconds.
    pub length: i64,
    /// From one window's start to the next one's: microseconds, at most the length.
    pub slide: i64,
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
    /// How late a row may be: microseconds. Windows that are kept for a time only take rows for that time only.
    pub fn grace(&self) -> Option<i64> {
        let kept = self.window.zip(self.retention).map(|(window, retention)| retention.saturating_sub(window.length).max(0));
        self.grace.or(kept)
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// `InvalidValue` names the setting.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::InvalidValue, format!("aggregate: {what}")));
        if let Some(Window { length, slide }) = self.window
            && !(0 < slide && slide <= length)
        {
            return wrong(format!("a window of {length} microseconds that slides by {slide}; it must slide by 1 to its length"));
        }
        if self.window.is_none() && self.emit == Emit::Close {
            return wrong("emit is close, but without windows nothing closes".to_owned());
        }
        if self.window.is_some() && !self.timed {
            return wrong("windows need a time column".to_owned());
        }
        match self.aggregates.iter().find(|aggregate| match aggregate.column {
            Some(column) => column >= self.rows.left.len(),
            None => aggregate.function != Function::Count,
        }) {
            Some(aggregate) => wrong(format!("column {:?} is computed of {:?}, which is not there", aggregate.name, aggregate.column)),
            None => Ok(()),
        }
    }

    /// The stores that it keeps: the groups' states, single values of some functions, the stream time.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let groups = match self.window {
            None => StoreKind::KeyValue,
            Some(window) => {
                let closes = self.grace().map(|grace| window.length.saturating_add(grace));
                let kept = closes.map_or(i64::MAX, |closes| closes.max(self.retention.unwrap_or(0)));
                StoreKind::Window { retention: kept, window_size: window.length, retain_duplicates: false, timestamped: false }
            }
        };
        [(GROUPS, groups), (ITEMS, StoreKind::KeyValue), (PROGRESS, StoreKind::KeyValue)]
            .map(|(name, kind)| StoreSpec::new(name, kind))
            .to_vec()
    }
}
