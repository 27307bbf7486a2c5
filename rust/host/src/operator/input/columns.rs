//! The columns of an operator's input.
//!
//! In this order: `pid` int32 · `side` bool (true: left, the stream; false: right, the table) ·
//! `deleted` bool, nullable (true: a right row that deletes its key's value) · `t` timestamp · key
//! columns · left payload (null on right rows) · right payload (null on left rows). An operator of
//! one side has left rows only. A row whose `side` is null is a heartbeat (`admission.rs`).

use arrow_schema::{Field, Schema};
use serde::Deserialize;

/// The index of the column `pid`.
pub const PID: usize = 0;
/// The index of the column `side`.
pub const SIDE: usize = 1;
/// The index of the column `deleted`.
pub const DELETED: usize = 2;
/// The index of the rows' time.
pub const TIME: usize = 3;
/// The number of columns before the user's.
pub const FIXED: usize = 4;

/// The user's names of an operator's input columns.
#[derive(Debug, Clone, Deserialize)]
pub struct RowsSpec {
    /// The key's columns.
    pub keys: Vec<String>,
    /// The left side's payload columns.
    pub left: Vec<String>,
    /// The right side's payload columns.
    #[serde(default)]
    pub right: Vec<String>,
    /// The columns with the rows' times, one for each side; none if rows have no time.
    #[serde(default)]
    pub times: Vec<String>,
    /// Left payload columns that order rows of equal times.
    #[serde(default)]
    pub order_left: Vec<usize>,
    /// Right payload columns that order rows of equal times.
    #[serde(default)]
    pub order_right: Vec<usize>,
}

impl RowsSpec {
    /// Returns the input columns under the user's names.
    pub fn named(&self, schema: &Schema) -> Schema {
        let fixed = schema
            .fields()
            .iter()
            .take(FIXED)
            .map(|field| Field::clone(field));
        let named = self.keys.iter().chain(&self.left).chain(&self.right);
        let others = schema
            .fields()
            .iter()
            .skip(FIXED)
            .zip(named)
            .map(|(field, name)| Field::clone(field).with_name(name));
        Schema::new(fixed.chain(others).collect::<Vec<Field>>())
    }
}
