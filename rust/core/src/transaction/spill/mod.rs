//! Spilling: staged records go into sorted files when they outgrow the transaction's memory
//! (KIP-844's secondary store, `docs/design/spill.md`).
//!
//! A spill is a commit into a temporary database, in `+uncommitted/N` beside the database's files.
//! It writes the rows that a commit would write, each value after a byte that marks a put or a
//! delete. From then on the transaction reads these rows over the last commit, and continues with
//! empty buffers; stores return the same rows as before. The directory is deleted with the last
//! transaction, scan or reader that holds it. If a crash leaves files of it, the next open deletes
//! them.

pub(super) mod hidden_keys;
pub(super) mod memory_limit;
pub(super) mod spiller;
mod spilling;
