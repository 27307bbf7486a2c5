//! The values of the rows with the greatest or the least orders: `max_by`, `min_by`.
//!
//! `ranked_rows.rs` the rows of a group · `ranked_values.rs` the function over all groups.

mod ranked_rows;
mod ranked_values;

pub use ranked_rows::RankingOrder;
pub use ranked_values::{RankedValues, Ranking};
