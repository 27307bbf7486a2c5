//! Measurements in turns, with criterion's statistics and report.
//!
//! The machines are shared, and their speed drifts by a factor of two within minutes. Criterion
//! takes all samples of one function before those of the next one. So a turn measures all sides,
//! one after the other, and criterion gets the times of the turns as the samples of each side. It
//! warns that the samples take longer than its target time: a sample is one turn.
#![allow(dead_code, reason = "each bench uses a part")]

use criterion::{Criterion, SamplingMode};
use std::time::Duration;

/// The least number of samples that criterion accepts.
pub const TURNS: usize = 10;

/// Returns criterion with the arguments of `cargo bench`.
pub fn criterion() -> Criterion {
    settings().configure_from_args()
}

/// Returns criterion for turns, without the arguments of `cargo bench`.
pub fn settings() -> Criterion {
    // The target time is so short that a sample has one iteration.
    Criterion::default()
        .sample_size(TURNS)
        .warm_up_time(Duration::from_nanos(1))
        .measurement_time(Duration::from_nanos(1))
}

/// Measures all sides in turns, and gives criterion the seconds of each side.
///
/// Returns no turns if the arguments of `cargo bench` select no side of the group.
pub fn take(
    criterion: &mut Criterion,
    group: &str,
    sides: &[&str],
    mut turn: impl FnMut(usize) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let mut turns: Vec<Vec<f64>> = Vec::new();
    let mut group = criterion.benchmark_group(group);
    group.sampling_mode(SamplingMode::Flat);
    for (side, name) in sides.iter().enumerate() {
        let mut sample = 0;
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|iterations| {
                if turns.is_empty() {
                    turns = (0..TURNS).map(&mut turn).collect();
                }
                sample += 1;
                Duration::from_secs_f64(turns[sample % TURNS][side] * iterations as f64)
            });
        });
    }
    group.finish();
    turns
}

/// Returns the numbers of a side of all turns.
pub fn side(turns: &[Vec<f64>], side: usize) -> Vec<f64> {
    turns.iter().map(|turn| turn[side]).collect()
}

/// Returns one side divided by another one, in each turn.
pub fn ratios(turns: &[Vec<f64>], one: usize, other: usize) -> Vec<f64> {
    turns.iter().map(|turn| turn[one] / turn[other]).collect()
}

/// Returns the median; 0 if there are no numbers.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (
        sorted.get(sorted.len().saturating_sub(1) / 2),
        sorted.get(sorted.len() / 2),
    ) else {
        return 0.0;
    };
    f64::midpoint(*low, *high)
}

/// Prints a figure for `benches/report.py`; nothing if no turn was taken.
///
/// `settings` are those that decide the speed of both sides: log, fsync, cache, compression.
pub fn publish(
    (measured, against, reach, unit): (&str, &str, &str, &str),
    turns: &[f64],
    note: &str,
    settings: &str,
) {
    if turns.is_empty() {
        return;
    }
    let figure = serde_json::json!({
        "measured": measured, "against": against, "turns": turns, "reach": reach, "unit": unit,
        "note": note, "settings": settings,
    });
    println!("FIGURE {figure}");
}

/// Returns the sizes in `HOLDFAST_BENCH_SIZES`, separated by commas, or the default ones.
pub fn sizes(default: &[usize]) -> Vec<usize> {
    match std::env::var("HOLDFAST_BENCH_SIZES") {
        Ok(given) => given
            .split(',')
            .map(|size| size.parse().expect("HOLDFAST_BENCH_SIZES has numbers"))
            .collect(),
        Err(_) => default.to_vec(),
    }
}

/// Whether inputs are small, to see that the benches work.
pub fn is_quick() -> bool {
    std::env::var_os("HOLDFAST_BENCH_QUICK").is_some()
}

/// Whether the sizes that take hours are measured.
pub fn is_full() -> bool {
    std::env::var_os("HOLDFAST_BENCH_FULL").is_some()
}
