//! Settings of an as-of join, as the request has them.

use holdfast_core::{StoreKind, StoreSpec};
use serde::Deserialize;

use super::TABLE;
use crate::operator::rows::RowsSpec;

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// What the driver says about the join.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns; of right rows with equal times the last one is in force.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// What becomes of left rows without a match.
    pub how: How,
    /// How far back history reaches, and the grace of late right rows: microseconds.
    pub history_retention: i64,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// The join's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Left rows without a match have nulls.
    Left,
    /// Left rows without a match are left out.
    Inner,
}

/// A column of the result.
#[derive(Debug, Clone, Deserialize)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: Source,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
    /// A key column.
    Key {
        /// Which one.
        index: usize,
    },
    /// The left row's time.
    Time,
    /// A payload column of the left row.
    Left {
        /// Which one.
        index: usize,
    },
    /// A payload column of the matched right row.
    Right {
        /// Which one.
        index: usize,
    },
    /// The matched right row's time.
    RightTime,
}

impl Spec {
    /// The join's one store: the right side's versions.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let segment_interval = segment_interval(self.history_retention);
        vec![StoreSpec::new(TABLE, StoreKind::Versioned { history_retention: self.history_retention, segment_interval })]
    }
}

/// The default segment interval of a retention (`stores.md` section 5).
fn segment_interval(retention: i64) -> i64 {
    if retention <= MINUTE {
        (retention / 3).max(2 * SECOND)
    } else if retention <= 5 * MINUTE {
        (retention / 5).max(20 * SECOND)
    } else if retention <= 60 * MINUTE {
        (retention / 12).max(MINUTE)
    } else {
        (retention / 24).max(5 * MINUTE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_a_fraction_of_the_retention_with_a_floor() {
        assert_eq!(segment_interval(0), 2 * SECOND);
        assert_eq!(segment_interval(MINUTE), 20 * SECOND);
        assert_eq!(segment_interval(5 * MINUTE), MINUTE);
        assert_eq!(segment_interval(60 * MINUTE), 5 * MINUTE);
        assert_eq!(segment_interval(30 * 24 * 60 * MINUTE), 30 * 60 * MINUTE);
    }

    #[test]
    fn a_request_of_python_is_understood() {
        let json = r#"{"keys": ["currency"], "left": ["amount"], "right": ["rate"], "how": "inner", "history_retention": 7,
            "order_left": [], "order_right": [0],
            "output": [{"name": "currency", "from": "key", "index": 0}, {"name": "at", "from": "time", "index": 0},
                       {"name": "rate", "from": "right", "index": 0}, {"name": "valid_from", "from": "right_time", "index": 0}]}"#;
        let spec: Spec = serde_json::from_str(json).expect("valid");
        assert_eq!(spec.how, How::Inner);
        let sources: Vec<Source> = spec.output.iter().map(|column| column.source).collect();
        assert_eq!(sources, [Source::Key { index: 0 }, Source::Time, Source::Right { index: 0 }, Source::RightTime]);
    }
}
