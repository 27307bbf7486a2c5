//! Several hosts on one root, as on a cluster.

mod claims;
mod rebalancing;
mod secrets;
mod stopped_hosts;

use std::fs::{self, TryLockError};
use std::time::Duration;

use holdfast_host::client::Client;

use crate::support::{HostProcess, Spark, TOKEN, TaskRequest, right};

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

pub fn terms(spark: &Spark) -> Vec<String> {
    spark.owners(0).into_iter().map(|(term, _)| term).collect()
}
