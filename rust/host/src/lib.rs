//! The state host of a Spark executor: a server that keeps the databases of its partitions open
//! between epochs.
//!
//! | Module | Content |
//! | --- | --- |
//! | [`protocol`] | which run decides an epoch, which runs are fenced: pure functions |
//! | [`log`](mod@log) | the format of the log's objects |
//! | [`codec`] | keys, values and columns as bytes |
//! | [`memory`] | a memory limit, shared by partitions |
//! | [`net`] | frames, messages, batches and calls between worker and host |
//! | [`root`] | the files of the state's root |
//! | [`partition`] | a partition's database, restored to the previous epoch |
//! | [`operator`] | what is done with the rows |
//! | [`tables`] | what an operator's stores hold, as rows of the user's columns |
//! | [`host`] | the state of a host between sessions |
//! | [`session`] | one attempt at one partition of one epoch |
//! | [`reader`] | reads the state from outside of its query |
//! | [`server`], [`client`] | the two ends of a connection |
//! | [`executor`], [`logging`] | the process that a host serves; the host's log |
//! | [`cancellation`] | ends the work of a host that must end |
//!
//! Methods that use a partition's database may fail as [`holdfast_core`] describes, besides the
//! errors that they list.
//!
//! A session, from the request to the staged epoch:
//!
//! ```no_run
//! use std::{thread, time::Duration};
//! use holdfast_host::{client::Client, server::{ServerOptions, serve}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
//! # let batch = arrow_array::RecordBatch::new_empty(schema);
//! let socket = std::env::temp_dir().join("holdfast-example/host.sock");
//! let options = ServerOptions {
//!     socket: socket.clone(),
//!     token: "secret".into(),
//!     tcp: None,
//!     executor: None,
//!     idle: Duration::from_secs(600),
//!     owns_process: false,
//! };
//! thread::spawn(move || serve(&options));
//!
//! let mut client = Client::connect(&socket, "secret", Duration::from_secs(5))?;
//! client.open(r#"{"root": "/data/state", "epoch": 7, "partition": 0, "…": "…"}"#)?;
//! client.push(&batch)?;
//! let mut output = client.finish()?;
//! for batch in &mut output {
//!     println!("{} rows", batch?.num_rows());
//! }
//! println!("staged: {:?}", output.staged());
//! # Ok(())
//! # }
//! ```

pub mod cancellation;
pub mod client;
pub mod codec;
pub mod executor;
pub mod host;
pub mod log;
pub mod logging;
mod machine;
pub mod memory;
pub mod net;
pub mod operator;
pub mod partition;
pub mod protocol;
pub mod reader;
pub mod root;
pub mod server;
pub mod session;
pub mod tables;
