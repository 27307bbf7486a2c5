//! A reader's own copies of partitions.

mod damaged;
mod old_epochs;
mod staged;
