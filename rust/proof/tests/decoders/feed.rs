//! Feeds a decoder with its corpus, with values that Holdfast encoded, and with mutations of both.

use fastrand::Rng;
use holdfast_proof::{generator, rounds};
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Once;
use xxhash_rust::xxh3::xxh3_128;

use crate::memory;

pub fn corpus(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(format)
}

/// The largest allocation that a decoder may make: twice the most that lz4 decompresses the bytes
/// to, because vectors grow by doubling, plus a constant for decoders and databases.
fn max_allocation(bytes: &[u8]) -> usize {
    (32 << 20) + 2 * 255 * bytes.len()
}

/// Up to `most` random bytes.
pub fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    (0..rng.usize(..=most)).map(|_| rng.u8(..)).collect()
}

/// Up to `most` random characters, some of two bytes.
pub fn text(rng: &mut Rng, most: usize) -> String {
    (0..rng.usize(..=most))
        .map(|_| {
            if rng.u8(..8) == 0 {
                'ü'
            } else {
                rng.alphanumeric()
            }
        })
        .collect()
}

/// A generator for one purpose; `FUZZ_SEED` changes it.
pub fn rng(purpose: u64) -> Rng {
    generator(rounds("FUZZ_SEED", 1), purpose)
}

/// One of the inputs with a few changes, or random bytes.
fn mutated(inputs: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..16) == 0 {
        return bytes(rng, 200);
    }
    let mut bytes = inputs[rng.usize(..inputs.len())].clone();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.u8(..)),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            // Extreme values of lengths and counts.
            4 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            _ => {
                let other = &inputs[rng.usize(..inputs.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
        }
    }
    bytes
}

thread_local! {
    /// The message of the last panic, while a decoder runs.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records a decoder's panics instead of printing them. Arrow panics for thousands of inputs, and
/// Holdfast turns these panics into errors. Printing one would allocate more memory for its
/// backtrace than an input may.
fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_recorded = PANIC.with_borrow_mut(|message| {
                message
                    .as_mut()
                    .map(|message| *message = panic.to_string())
                    .is_some()
            });
            if !is_recorded {
                print(panic);
            }
        }));
    });
}

/// Feeds a decoder its corpus and `times` mutations of it.
pub fn feed(format: &str, times: u64, decoder: impl Fn(&[u8])) {
    feed_made(format, Vec::new(), times, decoder);
}

/// As [`feed`], with additional inputs that Holdfast encoded.
pub fn feed_made(format: &str, made: Vec<Vec<u8>>, times: u64, decoder: impl Fn(&[u8])) {
    let folder = corpus(format);
    let mut inputs = vec![Vec::new()];
    for file in std::fs::read_dir(&folder).expect("a corpus") {
        inputs.push(std::fs::read(file.expect("a file").path()).expect("an input"));
    }
    assert!(inputs.len() > 1, "{} is empty", folder.display());
    inputs.extend(made);
    record_panics();
    let attempt = |bytes: &[u8]| {
        memory::reset();
        PANIC.set(Some(String::new()));
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| decoder(bytes)));
        let message = PANIC.take().unwrap_or_default();
        let allocated = memory::largest_allocation();
        if result.is_err() || allocated > max_allocation(bytes) {
            let does = if result.is_err() {
                "panics"
            } else {
                "allocates too much memory"
            };
            let saved = folder.join(format!(
                "panic-{:016x}",
                bytes.iter().fold(0u64, |hash, b| hash
                    .wrapping_mul(31)
                    .wrapping_add(u64::from(*b)))
            ));
            std::fs::write(&saved, bytes).expect("a corpus");
            panic!(
                "the decoder of {format} {does} ({allocated} bytes at once); the input is \
                 saved in {}; {message}",
                saved.display()
            );
        }
    };
    inputs.iter().for_each(|input| attempt(input));
    let mut rng = rng(7);
    for _ in 0..times {
        attempt(&mutated(&inputs, &mut rng));
    }
}

pub fn times(default: u64) -> u64 {
    default * rounds("FUZZ_TIMES", 1)
}

/// Appends the right checksum; without it nothing else is read.
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &xxh3_128(bytes).to_be_bytes()].concat()
}
