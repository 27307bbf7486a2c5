//! The proof of the store layer's guarantees, as programs: kills, power losses, damage, failpoints,
//! threads.
//!
//! All of them run the same workload: [`World`] is what the stores of a database must hold after
//! transaction n of a seed, a pure function of both, and it writes the same transactions into a
//! database. After whatever befell the database, the commit number that the database says it stands
//! at tells which world to compare it with; what a stop empties is in [`Keeping`].
//!
//! A new kind of store takes part by one implementation of [`Subject`] and a line in
//! [`subject::all`].

mod commit_folder;
pub mod faults;
pub mod runner;
pub mod spilled;
pub mod subject;
pub mod world;

pub use faults::{Faults, Kept, Operation, impatient};
pub use runner::{Note, Reached, Runner};
pub use subject::{Keeping, Open, Store, Subject};
pub use world::{Fault, Outcome, World};

/// How many rounds a proof takes: a variable of the environment, else the default of `make test`.
pub fn rounds(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(default)
}

/// A generator for one purpose within one seed; different purposes do not disturb each other.
pub fn generator(seed: u64, purpose: u64) -> fastrand::Rng {
    // Multiplied by an odd constant, so that neighbours are far apart.
    fastrand::Rng::with_seed(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03),
    )
}

/// Where proofs keep their databases: memory where there is a file system of it, since nothing here
/// needs a real disk (a killed process loses no page cache, and power losses are simulated).
pub fn directory() -> std::io::Result<tempfile::TempDir> {
    let builder = || {
        tempfile::Builder::new()
            .prefix("holdfast-proof-")
            .rand_bytes(8)
            .to_owned()
    };
    builder()
        .tempdir_in("/dev/shm")
        .or_else(|_| builder().tempdir())
}
