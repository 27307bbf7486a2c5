//! Tests of the addresses of hosts.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::protocol::{RunNumber, Term};
use crate::root::testing::{Fault, FaultyStore};

fn address(socket: PathBuf, token: &str) -> ReaderAddress {
    ReaderAddress {
        machine: "here".to_owned(),
        socket,
        endpoint: None,
        token: token.to_owned(),
    }
}

#[test]
fn requests_for_figures_and_reads_do_not_stop_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("host.sock");
    let store = Arc::new(FaultyStore::new(Fault::None));
    let root = Arc::new(Root::over(store, Path::new("memory")));
    let operator = OperatorName::new("join").expect("a name");
    let term = Term::first(RunNumber(1));
    let published = address(socket.clone(), "token");
    root.readers
        .publish(&operator, PartitionId(0), term, &published, Instant::now())
        .expect("published");
    let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), "id".to_owned(), 1));
    let hosts = LiveHosts::new(root, epochs);
    // No process listens.
    assert!(hosts.metrics().expect("no host").is_empty());
    assert!(hosts.address(&operator, PartitionId(0)).is_some());

    // The host listens now, but could not answer a read. Is it asked for figures?
    hosts.forget(&operator, PartitionId(0));
    hosts.without_figures.lock().clear();
    hosts.unreachable.lock().clear();
    let listener = UnixListener::bind(socket).expect("a socket");
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    thread::spawn(move || {
        let connection = listener.accept();
        seen.store(true, Ordering::SeqCst);
        drop(connection);
    });
    assert!(hosts.metrics().expect("no figures").is_empty());
    assert!(asked.load(Ordering::SeqCst));
}

#[test]
fn hosts_of_many_partitions_are_found_with_one_listing() {
    let store = Arc::new(FaultyStore::new(Fault::None));
    let shared = Arc::clone(&store);
    let root = Arc::new(Root::over(shared, Path::new("memory")));
    let operator = OperatorName::new("join").expect("a name");
    let partitions: Vec<PartitionId> = (0..20).map(PartitionId).collect();
    // The last partition has no host.
    for partition in &partitions[..19] {
        let address = address("socket".into(), &partition.to_string());
        let term = Term::first(RunNumber(1));
        root.readers
            .publish(&operator, *partition, term, &address, Instant::now())
            .expect("published");
    }
    let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), "id".to_owned(), 20));
    let hosts = LiveHosts::new(root, epochs);
    let before = store.requests();
    hosts.find_addresses(&operator, &partitions);
    let found = partitions
        .iter()
        .filter_map(|partition| hosts.address(&operator, *partition))
        .map(|address| address.token.clone());
    let expected = partitions[..19].iter().map(ToString::to_string);
    assert!(found.eq(expected));
    // The listing, and each address.
    assert_eq!(store.requests() - before, 1 + 19);
}

#[test]
fn host_that_does_not_answer_is_tried_once_for_all_its_partitions() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("host.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&tries);
    thread::spawn(move || {
        for connection in listener.incoming() {
            seen.fetch_add(1, Ordering::SeqCst);
            drop(connection);
        }
    });
    let store = Arc::new(FaultyStore::new(Fault::None));
    let root = Arc::new(Root::over(store, Path::new("memory")));
    let operator = OperatorName::new("join").expect("a name");
    let published = address(socket, "token");
    for partition in [0, 1, 2].map(PartitionId) {
        let term = Term::first(RunNumber(1));
        root.readers
            .publish(&operator, partition, term, &published, Instant::now())
            .expect("published");
    }
    let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), "id".to_owned(), 3));
    let hosts = LiveHosts::new(root, epochs);
    let read = |partition| {
        let answer = hosts.ask(&operator, PartitionId(partition), |connection| {
            connection.echo(b"x").map(Some)
        });
        answer.expect("no error")
    };
    assert_eq!([read(0), read(1)], [None, None]);
    assert!(hosts.metrics().expect("no figures").is_empty());
    assert_eq!(tries.load(Ordering::SeqCst), 1);
    // It is tried again after a while.
    let ended = Instant::now();
    hosts.unreachable.lock().insert("token".to_owned(), ended);
    assert_eq!(read(2), None);
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}

#[test]
fn new_host_of_a_partition_is_found_after_an_old_answer() {
    let store = Arc::new(FaultyStore::new(Fault::None));
    let root = Arc::new(Root::over(store, Path::new("memory")));
    let (operator, partition) = (OperatorName::new("join").expect("a name"), PartitionId(0));
    let publish = |run| {
        let published = address("socket".into(), &format!("run {run}"));
        let term = Term::first(RunNumber(run));
        root.readers
            .publish(&operator, partition, term, &published, Instant::now())
            .expect("published");
    };
    let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), "id".to_owned(), 1));
    let hosts = LiveHosts::new(Arc::clone(&root), epochs);
    let token = || {
        let address = hosts.address(&operator, partition);
        address.map(|address| address.token.clone())
    };
    publish(1);
    assert_eq!(token().as_deref(), Some("run 1"));
    publish(2);
    assert_eq!(token().as_deref(), Some("run 1"), "it is believed");
    hosts.find_again(&operator, &[partition]);
    assert_eq!(token().as_deref(), Some("run 2"));
}
