//! Reads of keys: which partitions are asked, and the order of the answers.

mod get;
mod key_answers;
