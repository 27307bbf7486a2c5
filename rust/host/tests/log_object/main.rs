//! The format of log objects: golden bytes, damage of every kind, digests, chunks.

mod damage;
mod format;
mod support;
mod writer;
