//! Settings of an as-of join, as the request has them.

use holdfast_core::{StoreKind, StoreSpec};
use serde::Deserialize;

use super::TABLE;
use crate::operator::rows::RowsSpec;
use crate::operator::{OutputColumn, segment_interval};

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

impl Spec {
    /// The join's one store: the right side's versions.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let segment_interval = segment_interval(self.history_retention);
        vec![StoreSpec::new(TABLE, StoreKind::Versioned { history_retention: self.history_retention, segment_interval })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Source;

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
