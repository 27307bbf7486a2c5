//! The wire between a worker or a reader and a host: frames, messages, batches, calls, encryption.

pub mod batch_stream;
pub mod call;
pub mod frame;
pub mod message;
pub mod metrics;
pub mod read;
pub mod read_until;
pub mod request;
pub mod socket;
pub mod stored_read;
pub mod tls;
pub mod writer_key;

/// Why a message cannot be read, and what to do. Messages have no version number.
pub const OTHER_VERSION: &str = "its sender has another version of holdfast: install one version \
     on the driver, on all executors and for all readers";
