//! The state host of a Spark executor: a server of stores that keeps its partitions' databases open
//! between epochs.
//!
//! Where is …? Who decides an epoch, who is fenced, what is an error: [`protocol`], pure functions
//! · the state's root, all of its files: [`root`] · what is in a log object: [`log`](mod@log) ·
//! bytes between worker and host: [`frame`], [`wire`], [`message`] · the worker's end: [`client`],
//! [`line`](mod@line), over a [`stream`] · the host's end: [`server`], [`connection`], [`session`]
//! · what a host keeps between sessions: [`host`], [`tally`] · a partition's database, brought to
//! the epoch before: [`partition`] · what is done with the rows: [`operator`] · keys and values as
//! bytes: [`key`], [`row`], [`payload`].
//!
//! What uses a partition's database may fail as [`holdfast_core`] says of all such calls, besides
//! what `# Errors` say.
//!
//! One session, from the request to the staged object:
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
//!     idle: Duration::from_secs(60),
//! };
//! thread::spawn(move || serve(&options));
//!
//! let mut client = Client::connect(&socket, "secret", Duration::from_secs(5))?;
//! client.open(r#"{"root": "/data/state", "epoch": 7, "partition": 0, "…": "…"}"#)?;
//! client.push(&batch)?;
//! let mut output = client.finish()?;
//! for batch in &mut output {
//!     println!("{} joined rows", batch?.num_rows());
//! }
//! println!("in the log: {:?}", output.staged());
//! # Ok(())
//! # }
//! ```

pub mod client;
pub mod codec;
pub mod executor;
pub mod host;
pub mod log;
pub mod logging;
pub mod memory;
pub mod net;
pub mod operator;
pub mod partition;
pub mod protocol;
pub mod root;
pub mod server;
pub mod session;
