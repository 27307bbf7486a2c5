//! What a peer on another machine must have to open a session.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use holdfast_host::client::Client;
use holdfast_host::net::message::MessageKind;
use holdfast_host::protocol::TcpEndpoint;
use parking_lot::Mutex;

use super::{IMPATIENT, endpoint, first_epoch, greeted, opened, proof, published, terms};
use crate::support::{Host, SECRET, Spark, TOKEN, TaskRequest, left, matched, right};

/// The secret of a driver that is started later.
const NEXT_SECRET: &str = "5ec7e70fa11d71ve76";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_hosts_user_can_read_the_tokens_of_readers() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    if !Spark::is_local() {
        return;
    }
    // A folder that an administrator made.
    let readers = spark.path().join("readers");
    fs::create_dir(&readers).unwrap();
    fs::set_permissions(&readers, fs::Permissions::from_mode(0o755)).unwrap();
    first_epoch(&spark, host.connect());
    assert_eq!(mode(&readers), 0o700);
    let addresses: Vec<PathBuf> = fs::read_dir(readers.join("join/0"))
        .unwrap()
        .map(|address| address.unwrap().path())
        .collect();
    assert_eq!(addresses.len(), 1);
    assert_eq!(mode(&addresses[0]), 0o600);
}

/// Returns a host's answer to a worker of another executor that may write the root of `spark` and
/// opens this session.
fn answer(endpoint: &TcpEndpoint, spark: &Spark, task: &TaskRequest) -> MessageKind {
    let (stream, welcome) = greeted(endpoint, proof(spark, SECRET));
    assert_eq!(welcome, MessageKind::Welcome);
    opened(stream, task)
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

/// What in a root could be a secret: whole files, and words of at least 16 letters and digits.
fn candidates(spark: &Spark) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for file in files(spark.path()) {
        let content = fs::read(file).unwrap();
        let words = content.split(|byte| !byte.is_ascii_alphanumeric());
        found.extend(words.filter(|word| word.len() >= 16).map(<[u8]>::to_vec));
        found.insert(content);
    }
    found.retain(|candidate| candidate.len() <= 2_000);
    found
}

#[test]
fn peer_with_every_file_of_the_root_opens_no_session() {
    let (spark, a, b) = (Spark::new(), Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    spark.begin(1);
    TaskRequest::new(&spark, "a", 1)
        .run(b.connect(), &[right("EUR", 20, 200)])
        .unwrap();
    spark.commit(1);
    assert_eq!(terms(&spark), ["1.1"], "b's worker has written at a");
    spark.begin(2);
    let task = TaskRequest::new(&spark, "a", 2);
    let (endpoint, candidates) = (endpoint(&spark, "owners"), candidates(&spark));
    let token = published(&spark, "readers")["token"].take();
    let token = token.as_str().unwrap().as_bytes();
    assert!(candidates.contains(token));
    let mut welcomed = Vec::new();
    for candidate in &candidates {
        let secret = String::from_utf8_lossy(candidate).into_owned();
        let (_, answer) = greeted(&endpoint, proof(&spark, &secret));
        assert_eq!(answer, MessageKind::Error, "{secret}");
        let (stream, answer) = greeted(&endpoint, |_| candidate.clone());
        if answer == MessageKind::Welcome {
            welcomed.push(candidate.as_slice());
            assert_eq!(opened(stream, &task), MessageKind::Error);
        }
    }
    assert_eq!(welcomed, [token], "only a reader is welcome");
    assert!(spark.objects(2).is_empty());
    // The same peer with the driver's secret.
    assert_eq!(answer(&endpoint, &spark, &task), MessageKind::Opened);
}

#[test]
fn replayed_proof_is_refused() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    first_epoch(&spark, host.connect());
    let endpoint = endpoint(&spark, "owners");
    let (prove, sent) = (proof(&spark, SECRET), Mutex::new(Vec::new()));
    let (_open, answer) = greeted(&endpoint, |channel| {
        sent.lock().extend(prove(channel));
        sent.lock().clone()
    });
    assert_eq!(answer, MessageKind::Welcome);
    let (_, answer) = greeted(&endpoint, |_| sent.lock().clone());
    assert_eq!(answer, MessageKind::Error);
}

#[test]
fn proof_for_another_host_is_refused() {
    let (spark, other) = (Spark::new(), Spark::new());
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    first_epoch(&other, b.connect());
    // A host between a worker and the host of its claim passes the proof on.
    let (between, _) = greeted(&endpoint(&other, "owners"), proof(&other, SECRET));
    let channel = between.channel().unwrap().unwrap();
    let prove = proof(&spark, SECRET);
    let (_, answer) = greeted(&endpoint(&spark, "owners"), |_| prove(&channel));
    assert_eq!(answer, MessageKind::Error);
}

#[test]
fn token_of_a_host_opens_no_session_over_the_network() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    first_epoch(&spark, host.connect());
    let (_, answer) = greeted(&endpoint(&spark, "owners"), |_| TOKEN.into());
    assert_eq!(answer, MessageKind::Error);
}

#[test]
fn session_of_another_executor_names_only_what_the_host_serves() {
    let (spark, other) = (Spark::new(), Spark::new());
    let host = Host::on_a_cluster();
    first_epoch(&spark, host.connect());
    let endpoint = endpoint(&spark, "owners");
    spark.begin(1);
    other.begin(0);
    let task = TaskRequest::new(&spark, "a", 1);
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().join("state");
    for refused in [
        TaskRequest::new(&other, "a", 0),
        TaskRequest::scratch(),
        task.clone().with("/local_dir", folder.to_str().unwrap()),
    ] {
        assert_eq!(answer(&endpoint, &spark, &refused), MessageKind::NotServed);
    }
    assert!(!folder.exists());
    assert!(!other.path().join("meta.json").exists(), "it is untouched");
    assert_eq!(answer(&endpoint, &spark, &task), MessageKind::Opened);
    // As soon as a task of its own executor uses the root, tasks of others may. A worker of one
    // root may not write the other one.
    first_epoch(&other, host.connect());
    other.begin(1);
    let task = TaskRequest::new(&other, "a", 1);
    assert_eq!(answer(&endpoint, &spark, &task), MessageKind::NotServed);
    assert_eq!(answer(&endpoint, &other, &task), MessageKind::Opened);
}

/// A task of one of two partitions.
fn task(spark: &Spark, (run, secret): (&str, &str), epoch: i64, partition: i32) -> TaskRequest {
    TaskRequest::new(spark, run, epoch)
        .partition(partition, 2)
        .with("/writer_secret", secret)
}

#[test]
fn host_accepts_the_writers_of_a_new_run_after_a_task_of_its_own() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    let (before, after) = (("a", SECRET), ("b", NEXT_SECRET));
    spark.epoch(0, || {
        for partition in 0..2 {
            let rows = [right("EUR", 10, 100)];
            let task = task(&spark, before, 0, partition);
            task.run(a.connect(), &rows).unwrap();
        }
    });
    let owner = spark.owners(0)[0].1.clone();
    let endpoint = endpoint(&spark, "owners");
    let welcomes = |secret| greeted(&endpoint, proof(&spark, secret)).1 == MessageKind::Welcome;
    assert!(welcomes(SECRET) && !welcomes(NEXT_SECRET));
    spark.begin(1);
    task(&spark, after, 1, 1).run(a.connect(), &[]).unwrap();
    let done = task(&spark, after, 1, 0)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(spark.owners(0), [("2.1".to_owned(), owner)]);
    assert!(!welcomes(SECRET) && welcomes(NEXT_SECRET));
}

#[test]
fn partition_leaves_a_host_without_a_task_of_the_new_run() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    let before = spark.owners(0);
    spark.begin(1);
    let impatient = Client::connect(&b.socket, TOKEN, IMPATIENT).unwrap();
    let done = TaskRequest::new(&spark, "b", 1)
        .with("/writer_secret", NEXT_SECRET)
        .run(impatient, &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    let owners = spark.owners(0);
    assert_eq!(owners[0].0, "2.1");
    assert_ne!(owners[0].1, before[0].1);
}
