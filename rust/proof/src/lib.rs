//! The proof of the guarantees of the engine and of a root, as programs: kills, power losses,
//! damage, disk errors, failpoints, threads, models, decoders.
//!
//! Kills, power losses, damage, disk errors and failpoints of the engine have the same workload,
//! and some of them also have the small one of [`spilled`]. [`World`] is
//! what the stores of a database must hold after transaction n of a seed. It is a pure function of
//! n and the seed, and it can write the same transactions to a database. After a failure the offset
//! that the database has committed selects the world to compare it with. [`WriteMode`] says which
//! stores a stop empties.
//!
//! A new kind of store takes part by an implementation of [`Subject`] and a line in
//! [`subject::all`].

mod commit_folder;
pub mod faults;
mod memory_folder;
pub mod progress;
pub mod runner;
pub mod spilled;
pub mod step_error;
pub mod subject;
pub mod unsynced;
pub mod world;

pub use faults::{Faults, Operation, without_retry_delay};
pub use progress::{Note, RunProgress};
pub use runner::Runner;
pub use step_error::{StepError, StepResult};
pub use subject::{OpenTransaction, Store, Subject, WriteMode};
pub use unsynced::UnsyncedBytes;
pub use world::World;

/// Returns a number of a proof, such as its rounds or its first seed: an environment variable, or
/// the default of `make test`.
pub fn rounds(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(default)
}

/// Returns a random generator for one purpose within a seed; purposes are independent of each
/// other.
pub fn generator(seed: u64, purpose: u64) -> fastrand::Rng {
    // Odd factors spread neighbouring seeds and purposes.
    fastrand::Rng::with_seed(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03),
    )
}

/// Returns a folder for databases, in memory if possible.
///
/// No proof needs a real disk: a killed process loses no page cache, and power losses are
/// simulated.
pub fn directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("holdfast-proof-")
        .rand_bytes(8)
        .tempdir_in(memory_folder::memory_folder())
}
