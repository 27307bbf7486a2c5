//! Names that no other host generates.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Generates random names, from a random seed and a counter.
#[derive(Default)]
pub struct Nonces {
    random: RandomState,
    counter: AtomicU64,
}

impl Nonces {
    /// Returns the next name: 16 hexadecimal digits.
    pub fn next(&self) -> String {
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.counter.fetch_add(1, Ordering::Relaxed));
        format!("{:016x}", hasher.finish())
    }
}
