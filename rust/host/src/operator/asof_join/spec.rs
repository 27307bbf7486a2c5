//! Settings of an as-of join, as the request has them.

use holdfast_core::{StoreKind, StoreSpec};
use serde::Deserialize;

use super::{HELD, TABLE};
use crate::operator::rows::RowsSpec;
use crate::operator::{OutputColumn, by_time};

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
    /// How long left rows are held back for right rows that come late: microseconds; at most the
    /// retention.
    #[serde(default)]
    pub grace: i64,
    /// No epoch follows this one: a static frame.
    #[serde(default)]
    pub last: bool,
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
    /// The stores: the right side's versions, and with grace the left rows that wait.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let mut stores = vec![StoreSpec::new(
            TABLE,
            StoreKind::versioned(self.history_retention),
        )];
        if self.grace > 0 {
            // What goes out is exactly what the store then forgets.
            stores.push(StoreSpec::new(HELD, by_time(self.grace, 0)));
        }
        stores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Source;

    #[test]
    fn a_request_of_python_is_understood() {
        let json = r#"{"keys": ["currency"], "left": ["amount"], "right": ["rate"],
            "how": "inner", "history_retention": 7,
            "order_left": [], "order_right": [0],
            "output": [{"name": "currency", "from": "key", "index": 0},
                {"name": "at", "from": "time", "index": 0},
                       {"name": "rate", "from": "right", "index": 0},
                       {"name": "valid_from", "from": "right_time", "index": 0}]}"#;
        let spec: Spec = serde_json::from_str(json).expect("valid");
        assert_eq!(spec.how, How::Inner);
        let sources: Vec<Source> = spec.output.iter().map(|column| column.source).collect();
        assert_eq!(
            sources,
            [
                Source::Key { index: 0 },
                Source::Time,
                Source::Right { index: 0 },
                Source::RightTime
            ]
        );
    }
}
