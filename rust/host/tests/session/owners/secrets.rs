//! Who can read the token of a host, and what the token permits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holdfast_host::net::frame::MAX_PAYLOAD;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::protocol::TcpEndpoint;

use super::{endpoint, first_epoch, stream};
use crate::support::{Host, Spark, TOKEN, TaskRequest};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_hosts_user_can_read_its_token() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    if !Spark::is_local() {
        return;
    }
    // A folder that an administrator made.
    let owners = spark.path().join("owners");
    fs::create_dir(&owners).unwrap();
    fs::set_permissions(&owners, fs::Permissions::from_mode(0o755)).unwrap();
    first_epoch(&spark, host.connect());
    assert_eq!(mode(&owners), 0o700);
    let claims: Vec<_> = fs::read_dir(owners.join("join/0"))
        .unwrap()
        .map(|claim| claim.unwrap().path())
        .collect();
    assert_eq!(claims.len(), 1);
    assert!(fs::read_to_string(&claims[0]).unwrap().contains(TOKEN));
    assert_eq!(mode(&claims[0]), 0o600);
}

/// Returns a host's answer to a worker of another executor that opens this session.
fn answer(endpoint: &TcpEndpoint, task: &TaskRequest) -> MessageKind {
    let mut stream = stream(endpoint).unwrap();
    message::send(&mut stream, MessageKind::Hello, TOKEN.as_bytes()).unwrap();
    let welcome = message::receive(&mut stream, MAX_PAYLOAD).unwrap().unwrap();
    assert_eq!(welcome.0, MessageKind::Welcome);
    let open = task.request.to_string();
    message::send(&mut stream, MessageKind::Open, open.as_bytes()).unwrap();
    message::receive(&mut stream, MAX_PAYLOAD)
        .unwrap()
        .unwrap()
        .0
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
        assert_eq!(answer(&endpoint, &refused), MessageKind::NotServed);
    }
    assert!(!folder.exists());
    assert!(!other.path().join("meta.json").exists(), "it is untouched");
    assert_eq!(answer(&endpoint, &task), MessageKind::Opened);
    // As soon as a task of its own executor uses the root, tasks of others may.
    first_epoch(&other, host.connect());
    other.begin(1);
    let task = TaskRequest::new(&other, "a", 1);
    assert_eq!(answer(&endpoint, &task), MessageKind::Opened);
}
