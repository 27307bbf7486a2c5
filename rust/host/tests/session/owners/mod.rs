//! Several hosts on one root, as on a cluster.

mod claims;
mod encryption;
mod rebalancing;
mod secrets;
mod stopped_hosts;

use std::fs::{self, TryLockError};
use std::time::Duration;

use holdfast_host::client::Client;
use holdfast_host::net::socket::Endpoint;
use holdfast_host::protocol::TcpEndpoint;
use serde_json::Value;

use crate::support::{HostProcess, PATIENCE, Spark, TOKEN, TaskRequest, right};

/// How long workers wait for a stopped host.
pub const IMPATIENT: Duration = Duration::from_millis(1_500);

/// Connects to a host; the client waits only briefly for other hosts.
pub fn connect(host: &HostProcess) -> Client {
    Client::connect(&host.socket, TOKEN, IMPATIENT).unwrap()
}

/// Runs epoch 0 with one rate.
pub fn first_epoch(spark: &Spark, client: Client) {
    spark.begin(0);
    TaskRequest::new(spark, "a", 0)
        .run(client, &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
}

/// Whether no host holds the lock of partition 0's first local directory.
pub fn first_directory_is_free(spark: &Spark) -> bool {
    let files = fs::read_dir(spark.local(0))
        .unwrap()
        .map(|file| file.unwrap().path());
    let lock = files
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(".0.lock"))
        .expect("a lock");
    match fs::File::open(lock).unwrap().try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => panic!("{error}"),
    }
}

/// Where the host that owns partition 0 listens, by one of the folders with addresses.
pub fn endpoint(spark: &Spark, folder: &str) -> TcpEndpoint {
    serde_json::from_value(published(spark, folder)["endpoint"].take()).unwrap()
}

/// What a host has put below `owners/` or `readers/` for partition 0.
pub fn published(spark: &Spark, folder: &str) -> Value {
    let files = fs::read_dir(spark.path().join(folder).join("join/0")).unwrap();
    let newest = files.map(|file| file.unwrap().path()).max().unwrap();
    serde_json::from_slice(&fs::read(newest).unwrap()).unwrap()
}

/// Connects to a host as another executor does.
pub fn stream(endpoint: &TcpEndpoint) -> std::io::Result<holdfast_host::net::socket::Stream> {
    Endpoint::Tcp(endpoint.clone()).connect(PATIENCE)
}

pub fn terms(spark: &Spark) -> Vec<String> {
    spark.owners(0).into_iter().map(|(term, _)| term).collect()
}
