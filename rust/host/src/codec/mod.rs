//! Keys, values and columns as bytes.

pub mod arrow_panics;
pub mod byte_list;
pub mod column;
pub mod evolving_row;
pub mod first_bytes;
pub mod float;
pub mod ipc;
pub mod key;
pub mod row;
pub mod row_hash;
