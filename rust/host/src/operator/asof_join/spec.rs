//! Settings of an as-of join, as the request has them.

use serde::Deserialize;

use crate::operator::input::RowsSpec;
use crate::operator::output::OutputColumn;

/// The store of the right side's versions.
pub const TABLE: &str = "table";
/// The store of the left rows that wait.
pub const WAITING: &str = "held";

/// The settings of an as-of join.
#[derive(Debug, Clone, Deserialize)]
pub struct AsofJoinSpec {
    /// The input's columns. Of several right rows with the same key and time, the last one is
    /// current.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Whether left rows without a match go out.
    pub how: AsofJoinKind,
    /// How far back history reaches, and how late right rows may be, in microseconds.
    pub history_retention: i64,
    /// How long left rows wait for late right rows, in microseconds; at most the retention.
    #[serde(default)]
    pub grace: i64,
    /// Whether no epoch follows this one, as for a static frame.
    #[serde(default)]
    pub last: bool,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// Whether left rows without a match go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsofJoinKind {
    /// They go out with nulls.
    Left,
    /// They do not go out.
    Inner,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::output::ColumnSource;

    #[test]
    fn a_request_from_python_is_parsed() {
        let json = r#"{"keys": ["currency"], "left": ["amount"], "right": ["rate"],
            "how": "inner", "history_retention": 7,
            "order_left": [], "order_right": [0],
            "output": [{"name": "currency", "from": "key", "index": 0},
                {"name": "at", "from": "time", "index": 0},
                       {"name": "rate", "from": "right", "index": 0},
                       {"name": "valid_from", "from": "right_time", "index": 0}]}"#;
        let spec: AsofJoinSpec = serde_json::from_str(json).expect("valid");
        assert_eq!(spec.how, AsofJoinKind::Inner);
        let sources: Vec<ColumnSource> = spec.output.iter().map(|column| column.source).collect();
        assert_eq!(
            sources,
            [
                ColumnSource::Key { index: 0 },
                ColumnSource::Time,
                ColumnSource::Right { index: 0 },
                ColumnSource::RightTime
            ]
        );
    }
}
