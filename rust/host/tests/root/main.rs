//! The root in a folder or (under `scripts/s3`) on an S3 server, prefix by prefix.

mod costs;
mod decisions;
mod identity;
mod late_heads;
mod operator_catalog;
mod rewind;
mod run_claims;
mod snapshots;
mod spark_checkpoint;
mod stage;
mod support;
