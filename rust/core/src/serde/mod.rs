//! Serdes: encode typed keys and values as bytes and decode them, a column at a time.
//!
//! | serde | Arrow type of a column | key | value |
//! | --- | --- | --- | --- |
//! | string | string | its UTF-8 | the same |
//! | int64 | int64 | 8 bytes, big-endian, sign bit flipped | the same |
//! | float64 | float64 | 8 ordered bytes; zeros and NaNs normalized | 8 ordered bytes, as is |
//! | bool | bool | 00 or 01 | the same |
//! | timestamp | timestamp of any unit and zone, or int64 | epoch microseconds, int64 | the same |
//! | json | string | the text | the same |
//! | struct | struct | its fields in order (`ordered.rs`) | a row with column names (`row.rs`) |
//!
//! The serde timestamp decodes to timestamp\[us, UTC\].
//!
//! The bytes of keys sort as Spark SQL sorts the values: nulls first (fields of a struct), NaN
//! last, negative numbers below positive ones, strings by UTF-8, false below true. The bytes are
//! part of the stored format: tests pin them.
//!
//! The encoding is specific to Holdfast (`docs/design/serde-bytes.md`). arrow-row, which the host
//! uses in its log and databases, does not promise stable bytes (the host's tests check them), does
//! not normalize NaNs and zeros, pads strings to blocks and cannot change a schema.
//!
//! `definition.rs` the serde · `column.rs` columns · `scalar.rs`, `fields.rs` single values ·
//! `descriptor.rs` what a store records about its serde · `format/` the bytes · `text.rs`,
//! `timestamp.rs` two kinds of columns.

mod column;
mod definition;
mod descriptor;
mod fields;
mod format;
mod scalar;
mod side;
mod text;
mod timestamp;

pub use definition::Serde;
pub use fields::FieldValue;
pub use scalar::Scalar;
pub use side::SerdeSide;
