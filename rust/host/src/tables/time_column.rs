//! The columns with a row's times.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, TimeUnit};
use holdfast_core::{Error, ErrorKind, Result, StoreKind};

use super::stored_rows::RowTimes;

/// A column with a time of the row.
pub struct TimeColumn {
    pub time: TimeOf,
    pub data_type: DataType,
}

/// A time of a row, under a name.
pub struct TimeOf {
    pub name: String,
    time: fn(&RowTimes) -> Option<i64>,
    /// What is added to it.
    pub plus: i64,
}

impl TimeOf {
    pub fn new(name: &str, time: fn(&RowTimes) -> Option<i64>, plus: i64) -> Self {
        Self {
            name: name.to_owned(),
            time,
            plus,
        }
    }
}

impl TimeColumn {
    pub fn column(&self, rows: &[RowTimes]) -> ArrayRef {
        let TimeOf { time, plus, .. } = &self.time;
        let times: TimestampMicrosecondArray = rows
            .iter()
            .map(|times| time(times).map(|time| time.saturating_add(*plus)))
            .collect();
        match &self.data_type {
            DataType::Timestamp(_, Some(zone)) => Arc::new(times.with_timezone(Arc::clone(zone))),
            _ => Arc::new(times),
        }
    }
}

/// The columns with the times of a store's rows.
pub fn time_columns(kind: &StoreKind, time: Option<&Field>) -> Vec<TimeOf> {
    let time = time.map(|time| time.name().as_str());
    let begin = |name: &str| TimeOf::new(name, |times| times.begin, 0);
    let end = |name: &str| TimeOf::new(name, |times| times.end, 0);
    match kind {
        StoreKind::KeyValue => Vec::new(),
        StoreKind::TimestampedKeyValue => vec![begin(time.unwrap_or("timestamp"))],
        StoreKind::Versioned { .. } => vec![begin("valid_from"), end("valid_to")],
        // Without a length a window is a moment.
        StoreKind::Window { window_size: 0, .. } if time.is_some() => {
            vec![begin(time.unwrap_or_default())]
        }
        StoreKind::Window { timestamped, .. } => {
            let mut columns = vec![begin("window_start"), end("window_end")];
            if *timestamped {
                columns.push(TimeOf::new("timestamp", |times| times.timestamp, 0));
            }
            columns
        }
        StoreKind::Session { .. } => vec![begin("start"), end("end")],
    }
}

/// The names of the times that a read of keys has beside the keys.
pub fn key_times(kind: &StoreKind) -> &'static [&'static str] {
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => &[],
        StoreKind::Versioned { .. } => &["as_of"],
        StoreKind::Window { .. } => &["start"],
        StoreKind::Session { .. } => &["start", "end"],
    }
}

/// The epoch microseconds of a column of times.
///
/// # Errors
/// `InvalidType` for a column of another type, `InvalidValue` for a null.
pub fn micros(column: &ArrayRef, what: &str) -> Result<Vec<i64>> {
    if column.null_count() > 0 {
        let text = format!("{what} is null in a row");
        return Err(Error::new(ErrorKind::InvalidValue, text));
    }
    values(column, what)
}

/// As [`micros`], for moments of a read. A null gives an arbitrary time.
///
/// # Errors
/// `InvalidType` for a column of another type.
pub fn moments_of(column: &ArrayRef) -> Result<Vec<i64>> {
    values(column, "as_of")
}

fn values(column: &ArrayRef, what: &str) -> Result<Vec<i64>> {
    let values = match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => column
            .as_primitive::<TimestampMicrosecondType>()
            .values()
            .to_vec(),
        DataType::Int64 => column.as_primitive::<Int64Type>().values().to_vec(),
        other => {
            let text = format!("{what} is {other}; it must be a timestamp in microseconds");
            return Err(Error::new(ErrorKind::InvalidType, text));
        }
    };
    Ok(values)
}
