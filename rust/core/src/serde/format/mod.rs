//! The stored bytes of typed values.
//!
//! `stored_column.rs` the types that can be stored · `description.rs` their description ·
//! `ordered.rs` ordered cells · `key.rs` keys and single values · `row.rs` struct values ·
//! `cells.rs` Arrow arrays that are read · `sink.rs` Arrow arrays that are built.

pub mod cells;
pub mod description;
pub mod key;
pub mod ordered;
pub mod row;
pub mod sink;
pub mod stored_column;
