//! Commits.

pub(super) mod commit_file;
mod commit_transaction;
mod publish;
pub(super) mod spilled_commit;
mod staged_rows;

pub use commit_transaction::Commit;
