//! What a micro-batch costs in the root.

use std::fs;
use std::path::Path;

use holdfast_core::ProcessingGuarantee::ExactlyOnce;
use holdfast_host::protocol::{Epoch, RunNumber};
use holdfast_host::root::DecisionAsker;

use crate::support::{EPOCH, claim, header, root, spark};

/// Prints the costs of a micro-batch:
/// `cargo test --release costs_of_a_micro_batch -- --ignored --nocapture`.
#[test]
#[ignore = "prints times"]
fn costs_of_a_micro_batch() {
    let root = root();
    spark(&root, "offsets/5", "v1");
    spark(&root, "commits/4", "v1");
    let run = claim(&root, "a");
    for partition in 0..16 {
        root.stage(&header("join", partition, run, "x"), &[], 16, ExactlyOnce)
            .expect("stages");
    }
    filler(root.files());
    let time = |what: &str, f: &dyn Fn()| {
        let start = std::time::Instant::now();
        (0..100).for_each(|_| f());
        println!("{what}: {} us", start.elapsed().as_micros() / 100);
    };
    time("claim, known", &|| assert_eq!(claim(&root, "a"), run));
    time("commits, offsets", &|| {
        assert!(root.spark.is_committed(Epoch(4)).is_ok() && root.spark.offsets(EPOCH).is_ok())
    });
    time("recorded decision, 16 objects", &|| {
        assert!(
            root.decisions
                .read_or_decide(DecisionAsker::default(), EPOCH, 16)
                .is_ok()
        )
    });
    time("fsync of Spark's files", &|| {
        root.spark.sync_offsets(RunNumber(2), EPOCH).expect("syncs");
        root.spark.sync_offsets(RunNumber(1), EPOCH).expect("syncs");
    });
    let next = std::cell::Cell::new(16);
    time("stage", &|| {
        next.set(next.get() + 1);
        root.stage(&header("join", next.get(), run, "x"), &[], 200, ExactlyOnce)
            .expect("stages");
    });
}

fn filler(root: &Path) {
    for epoch in 100..2_100 {
        fs::create_dir_all(root.join(format!("log/{epoch:020}"))).expect("makes");
    }
}
