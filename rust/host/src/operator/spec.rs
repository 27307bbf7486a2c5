//! The interface of the settings of all operators.

use arrow_schema::Schema;
use holdfast_core::{Result, StoreKind, StoreSpec};

use super::execution::Operator;
use super::input::RowsSpec;

/// The settings of an operator, as a request has them.
pub trait OperatorSpec {
    /// Starts the operator for rows of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the setting or the column that does not fit.
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>>;

    /// The input's columns.
    fn rows(&self) -> &RowsSpec;

    /// Whether only left rows advance the stream time. If so, a partition that gets only right rows
    /// is idle.
    fn follows_left_rows(&self) -> bool {
        false
    }

    /// The stores of the operator.
    fn stores(&self) -> Vec<StoreSpec>;
}

/// A store of one value for each time of a key.
pub fn by_time(retention: i64, window_size: i64) -> StoreKind {
    StoreKind::Window {
        retention,
        window_size,
        retain_duplicates: false,
        timestamped: false,
    }
}
