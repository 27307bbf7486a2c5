//! Reads keys from the partitions that may have them, and puts the answers into the keys' order.

mod get;
mod key_answers;
