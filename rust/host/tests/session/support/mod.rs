//! What the tests share: Spark's driver, hosts, tasks, rows.

mod endpoint;
mod host;
mod host_process;
mod rows;
mod spark;
mod task;
mod wait;

pub use endpoint::{SECRET, TOKEN};
pub use host::Host;
pub use host_process::HostProcess;
pub use rows::{
    Joined, Row, batch, counted, deleted, heartbeat, joined, left, matched, right, schema,
    unmatched,
};
pub use spark::{HEARTBEAT, QUERY, Spark, damage_tables};
pub use task::{TaskRequest, TaskResult, count_windows, refused};
pub use wait::{PATIENCE, wait_until};
