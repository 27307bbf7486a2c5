//! `runs/`: claims of numbers, and the fence.

use std::sync::{Arc, Barrier};
use std::thread;

use holdfast_core::ErrorKind;
use holdfast_host::protocol::RunNumber;
use holdfast_host::root::Root;

use crate::support::{EPOCH, claim, refused, root, spark};

#[test]
fn runs_claim_numbers_and_the_newest_fences_the_others() {
    let root = root();
    let first = claim(&root, "a");
    assert_eq!((first, claim(&root, "a")), (RunNumber(1), RunNumber(1)));
    root.runs.fence(first).expect("the newest");
    assert_eq!(claim(&root, "b"), RunNumber(2));
    refused(
        root.runs.fence(first),
        ErrorKind::Fenced,
        &["run 1", "run 2", "run id b"],
    );
    refused(
        root.runs.claim("q", "a", EPOCH),
        ErrorKind::Fenced,
        &["run 2"],
    );
    // Another host, whose cache is empty.
    let other = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    refused(
        other.runs.claim("q", "a", EPOCH),
        ErrorKind::Fenced,
        &["run 2"],
    );
    assert_eq!(
        other.runs.claim("q", "b", EPOCH).expect("known"),
        RunNumber(2)
    );
    spark(&root, "commits/5", "v1");
    refused(
        other.runs.claim("q", "c", EPOCH),
        ErrorKind::Fenced,
        &["epoch 5", "already committed"],
    );
}

#[test]
fn runs_that_claim_at_once_get_different_numbers() {
    let root = root();
    let (root, barrier) = (Arc::new(root), Arc::new(Barrier::new(8)));
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let (root, barrier) = (Arc::clone(&root), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                // A run may be fenced at once by a faster one; its claim exists all the same.
                root.runs
                    .claim("q", &format!("run{i}"), EPOCH)
                    .map_err(|error| assert_eq!(error.kind(), ErrorKind::Fenced, "{error}"))
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| assert!(thread.join().is_ok()));
    // Each has one number, and numbers leave no gap.
    assert_eq!(claim(&root, "after them"), RunNumber(9));
}
