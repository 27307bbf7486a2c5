//! The wire between a worker and a host: frames, messages, batches, calls, encryption.

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
