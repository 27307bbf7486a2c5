//! Expiry of rows: how far the horizons rise, and how expired rows leave the files.

mod horizons;
mod reclaimer;
mod row_expiry;
mod views;

pub(super) use reclaimer::Reclaimer;
pub(super) use row_expiry::RowExpiry;
pub(super) use views::Views;
