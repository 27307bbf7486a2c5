//! Tests of the addresses of hosts.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::protocol::{RunNumber, Term};
use crate::root::testing::{Fault, FaultyStore};

/// The address of a host on this machine.
pub(super) fn address(socket: PathBuf, token: &str) -> ReaderAddress {
    ReaderAddress {
        machine: "here".to_owned(),
        socket,
        endpoint: None,
        token: token.to_owned(),
    }
}

/// Publishes the address of a partition's host in this run.
fn publish(
    root: &Root,
    operator: &OperatorName,
    (partition, run): (PartitionId, u64),
    address: &ReaderAddress,
) {
    let term = Term::first(RunNumber(run));
    root.readers
        .publish(operator, partition, term, address, Instant::now())
        .expect("published");
}

/// The hosts of a root, as a reader knows them that has asked none yet.
fn hosts_of(root: &Arc<Root>, partitions: u32) -> LiveHosts {
    let id = "id".to_owned();
    let epochs = Arc::new(FinalEpochs::new(Arc::clone(root), id, partitions));
    LiveHosts::new(Arc::clone(root), epochs)
}

#[test]
fn requests_for_figures_and_reads_do_not_stop_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("host.sock");
    let root = Arc::new(Arc::new(FaultyStore::new(Fault::None)).root());
    let operator = OperatorName::new("join").expect("a name");
    let published = address(socket.clone(), "token");
    publish(&root, &operator, (PartitionId(0), 1), &published);
    let hosts = hosts_of(&root, 1);
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
    let root = Arc::new(store.root());
    let operator = OperatorName::new("join").expect("a name");
    let partitions: Vec<PartitionId> = (0..20).map(PartitionId).collect();
    // The last partition has no host.
    for partition in &partitions[..19] {
        let address = address("socket".into(), &partition.to_string());
        publish(&root, &operator, (*partition, 1), &address);
    }
    let hosts = hosts_of(&root, 20);
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
    let root = Arc::new(Arc::new(FaultyStore::new(Fault::None)).root());
    let operator = OperatorName::new("join").expect("a name");
    let published = address(socket, "token");
    for partition in [0, 1, 2].map(PartitionId) {
        publish(&root, &operator, (partition, 1), &published);
    }
    let hosts = hosts_of(&root, 3);
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
    let root = Arc::new(Arc::new(FaultyStore::new(Fault::None)).root());
    let (operator, partition) = (OperatorName::new("join").expect("a name"), PartitionId(0));
    let publish = |run| {
        let published = address("socket".into(), &format!("run {run}"));
        publish(&root, &operator, (partition, run), &published);
    };
    let hosts = hosts_of(&root, 1);
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
