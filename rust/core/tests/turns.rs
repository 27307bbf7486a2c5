//! The benches' harness: criterion gets the times of turns that measure all sides one after the
//! other.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "../../../benches/rust/turns.rs"]
mod turns;

use criterion::Criterion;
use std::path::Path;
use turns::TURNS;

/// Criterion as the benches set it, without the arguments of the test.
fn criterion(folder: &Path) -> Criterion {
    turns::settings().without_plots().output_directory(folder)
}

/// The samples that criterion has saved, in seconds.
fn samples(folder: &Path, side: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join("puts").join(side).join("new/sample.json"));
    let saved: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
    let numbers = |name: &str| -> Vec<f64> {
        let found = saved[name].as_array().unwrap();
        found
            .iter()
            .map(|number| number.as_f64().unwrap())
            .collect()
    };
    let mut seconds: Vec<f64> = numbers("times")
        .iter()
        .zip(numbers("iters"))
        .map(|(nanos, iterations)| (nanos / iterations / 1e9 * 1e3).round() / 1e3)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

#[test]
fn criterion_gets_every_turn_of_each_side_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut order = Vec::new();
    let turns = turns::take(
        &mut criterion(folder.path()),
        "puts",
        &["ours", "theirs"],
        |turn| {
            order.push(turn);
            vec![1.0 + turn as f64, 100.0 + turn as f64]
        },
    );
    assert_eq!(order, (0..TURNS).collect::<Vec<_>>());
    for (side, name) in ["ours", "theirs"].into_iter().enumerate() {
        assert_eq!(turns::side(&turns, side), samples(folder.path(), name));
    }
    assert_eq!(turns::ratios(&turns, 0, 1)[0], 0.01);
}

#[test]
fn no_turn_is_taken_of_a_group_that_is_not_selected() {
    let folder = tempfile::tempdir().unwrap();
    let turns = turns::take(
        &mut criterion(folder.path()).with_filter("gets"),
        "puts",
        &["ours", "theirs"],
        |_| panic!("the group is not selected"),
    );
    assert!(turns.is_empty());
}

#[test]
fn median_of_an_even_number_is_between_the_middle_two() {
    assert_eq!(turns::median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    assert_eq!(turns::median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(turns::median(&[]), 0.0);
}
