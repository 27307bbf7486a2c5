//! Settings of an aggregation, as the request has them.

use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec};
use serde::Deserialize;

use super::window_spec::{Emit, HoppingWindow, Window};
use crate::operator::input::RowsSpec;
use crate::operator::output::OutputColumn;
use crate::operator::spec::by_time;

/// The store of the groups' states.
pub const GROUPS: &str = "groups";
/// The store of single values.
pub const ITEMS: &str = "items";
/// The store of the stream time and of what it has closed (`TimeProgress` in `windows/clock.rs`).
pub const PROGRESS: &str = "progress";
/// The only key of that store.
pub const STREAM_TIME: &[u8] = b"stream time";

/// The maximum number of values that `max_by` and `min_by` return. A group's values are read and
/// written as a whole.
const MAX_LIMIT: usize = 1_000;

/// The settings of an aggregation.
#[derive(Debug, Clone, Deserialize)]
pub struct AggregateSpec {
    /// The input's columns; all rows are left ones.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// What is computed for each group, in the order of the result's columns.
    pub aggregates: Vec<AggregateColumn>,
    /// The windows. Without windows, there is one group for each key.
    #[serde(default)]
    pub window: Option<Window>,
    /// Whether rows have a time.
    #[serde(default)]
    pub timed: bool,
    /// How far behind the stream time a row (or a window's end) may be, in microseconds. If it is
    /// `None`, it follows from the retention of the windows. Without a retention, it is 0 if
    /// windows are emitted when they close; otherwise any distance is allowed.
    #[serde(default)]
    pub grace: Option<i64>,
    /// When a group's result is emitted.
    #[serde(default)]
    pub emit: Emit,
    /// How far behind the stream time windows are stored, in microseconds. If it is `None`, windows
    /// are stored as long as they accept rows.
    #[serde(default)]
    pub retention: Option<i64>,
    /// Whether no epoch follows this one, as for a static frame.
    #[serde(default)]
    pub last: bool,
    /// The columns of the rows that the user's functions receive.
    #[serde(default, rename = "output")]
    pub columns: Vec<OutputColumn>,
}

/// One column of the result.
#[derive(Debug, Clone, Deserialize)]
pub struct AggregateColumn {
    /// Its name.
    pub name: String,
    /// The function that computes it.
    pub function: AggregateFunction,
    /// The payload column that the function takes. `None` means the row itself (`count`, the user's
    /// functions).
    #[serde(default)]
    pub column: Option<usize>,
    /// The payload column whose greatest or least value selects a row (`max_by`, `min_by`).
    #[serde(default)]
    pub order: Option<usize>,
    /// The number of rows that are selected. `None` means one row, and a result that is no list.
    #[serde(default)]
    pub limit: Option<usize>,
    /// The state and result types of the user's function, which the root records.
    #[serde(default)]
    pub declared: Option<String>,
}

impl AggregateColumn {
    /// The payload columns that the function reads.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.column.into_iter().chain(self.order)
    }

    /// Checks the function's columns against the number of payload columns, and its limit.
    ///
    /// # Errors
    /// `InvalidValue` names the column of the result.
    fn check(&self, payload: usize) -> Result<()> {
        let name = &self.name;
        let wrong = |what: String| {
            let text = format!("aggregate: result column {name:?} {what}");
            Err(Error::new(ErrorKind::InvalidValue, text))
        };
        if let Some(column) = self.columns().find(|column| *column >= payload) {
            return wrong(format!(
                "is computed from input column {column}, which does not exist"
            ));
        }
        let function = self.function;
        if let Some(limit) = self.limit
            && !(function.is_ranked() && (1..=MAX_LIMIT).contains(&limit))
        {
            return wrong(format!(
                "is {limit} values: only max_by and min_by return several values, 1 to {MAX_LIMIT}"
            ));
        }
        let takes_rows = matches!(function, AggregateFunction::Count | AggregateFunction::User);
        match (self.column, self.order) {
            (None, None) if takes_rows => Ok(()),
            (None, _) => wrong("needs an input column".to_owned()),
            (Some(_), order) if order.is_some() == function.is_ranked() => Ok(()),
            (Some(_), None) => wrong(format!(
                "needs an order, because it is a {}",
                function.name()
            )),
            (Some(_), Some(_)) => {
                wrong(format!("has an order, and {} takes none", function.name()))
            }
        }
    }
}

/// The functions. The built-in ones have Spark SQL's meaning: all but `count` of rows, `first` and
/// `last` ignore nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are Spark's")]
pub enum AggregateFunction {
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
    MaxBy,
    MinBy,
    CountIf,
    BoolAnd,
    BoolOr,
    Variance,
    Stddev,
    VarPop,
    StddevPop,
    /// A function of the user, which runs in the worker.
    #[serde(rename = "own")]
    User,
}

impl AggregateFunction {
    /// All functions except the user's.
    pub const BUILT_IN: [Self; 19] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Avg,
        Self::First,
        Self::Last,
        Self::CountDistinct,
        Self::CollectList,
        Self::CollectSet,
        Self::MaxBy,
        Self::MinBy,
        Self::CountIf,
        Self::BoolAnd,
        Self::BoolOr,
        Self::Variance,
        Self::Stddev,
        Self::VarPop,
        Self::StddevPop,
    ];

    /// The function's name in Spark.
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
            Self::MaxBy => "max_by",
            Self::MinBy => "min_by",
            Self::CountIf => "count_if",
            Self::BoolAnd => "bool_and",
            Self::BoolOr => "bool_or",
            Self::Variance => "variance",
            Self::Stddev => "stddev",
            Self::VarPop => "var_pop",
            Self::StddevPop => "stddev_pop",
            Self::User => "aggregator",
        }
    }

    /// Whether the function reads an order beside its column.
    pub fn is_ranked(self) -> bool {
        matches!(self, Self::MaxBy | Self::MinBy)
    }
}

impl AggregateSpec {
    /// How late a row may be, in microseconds. If windows have a retention and no grace, the grace
    /// follows from the retention.
    pub fn grace(&self) -> Option<i64> {
        let from_retention = self
            .window
            .zip(self.retention)
            .map(|(window, retention)| retention.saturating_sub(window.reach()).max(0));
        self.grace.or(from_retention)
    }

    /// Whether the user has written one of the functions.
    pub fn has_user_functions(&self) -> bool {
        self.aggregates
            .iter()
            .any(|aggregate| aggregate.function == AggregateFunction::User)
    }

    /// Checks the settings.
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
                    "a window of {length} microseconds that slides by {slide}; the slide must be \
                     from 1 to the length"
                ));
            }
            Some(Window::Sliding { length: span } | Window::Session { gap: span }) if span <= 0 => {
                return wrong(format!(
                    "a window is {span} microseconds long; it must be at least 1"
                ));
            }
            _ => {}
        }
        if self.window.is_none() && self.emit == Emit::Close {
            return wrong("emit is close, but without windows no group closes".to_owned());
        }
        if self.window.is_some() && !self.timed {
            return wrong("windows need a time column".to_owned());
        }
        let mut aggregates = self.aggregates.iter();
        aggregates.try_for_each(|aggregate| aggregate.check(self.rows.left.len()))
    }

    /// How far behind its stream time the store of the groups retains them, in microseconds.
    pub fn group_retention(&self) -> i64 {
        // Windows that are emitted when they close are deleted then, not by a retention.
        let window = self.window.filter(|_| self.emit == Emit::Update);
        window.map_or(i64::MAX, |window| {
            let needed = self
                .grace()
                .map_or(i64::MAX, |grace| window.reach().saturating_add(grace));
            needed.max(self.retention.unwrap_or(0))
        })
    }

    /// The stores: the groups' states, single values of some functions, the stream time.
    pub fn store_specs(&self) -> Vec<StoreSpec> {
        let retention = self.group_retention();
        let groups = match self.window {
            None => StoreKind::KeyValue,
            Some(Window::Hopping(window)) => by_time(retention, window.length),
            Some(Window::Sliding { .. }) => by_time(retention, 0),
            Some(Window::Session { .. }) => StoreKind::Session { retention },
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
