//! The requests of a reader, each a `Read` message with one [`CallMessage`], and the answers.
//!
//! ```text
//! reader                              host
//! Hello(read token)        ------->
//!                          <-------   Welcome
//! Read(pin)                ------->
//!                          <-------   Answer(view, epoch, chain), or Answer(absent)
//! Read(rows of a view)     ------->
//!                          <-------   Answer(rows, more) *; the last one says that no more follow
//! Read(unpin)              ------->   no answer
//! Read(metrics)            ------->
//!                          <-------   Answer(metrics)
//! Read(rows of a table)    ------->   a pin, the rows and an unpin in one request
//!                          <-------   Answer(rows, more) *, or Answer(absent)
//! ```
//!
//! A *view* is a partition at one epoch. The host holds it until the reader unpins it or
//! disconnects. `Refused(kind, message)` answers a request that fails; the connection goes on.
//! `Error(kind, message)` answers a request that is too large, or for which the host has no memory;
//! the connection ends.

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::OTHER_VERSION;
use super::metrics::HostMetrics;
use crate::protocol::{Digest, Epoch, IsolationLevel, OperatorName, PartitionId};

/// The attribute with a request or an answer, as JSON.
pub const READ: &str = "read";

/// The state that a reader asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReadTarget {
    /// The root's id.
    pub root: String,
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// Whether staged changes of the next epoch are read.
    pub isolation_level: IsolationLevel,
}

/// The request of a reader; `C` is the call of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ReadRequest<C> {
    /// Pin a view of the newest final epoch.
    Pin {
        /// The partition.
        target: ReadTarget,
    },
    /// Read rows of a pinned view.
    Rows {
        /// The view.
        view: u64,
        /// The table.
        store: String,
        /// Which rows are read.
        call: C,
    },
    /// Read rows of the newest final epoch.
    Newest {
        /// The partition.
        target: ReadTarget,
        /// The table.
        store: String,
        /// Which rows are read.
        call: C,
    },
    /// Ask for the host's figures.
    Metrics {
        /// The id of the root whose partitions are asked for.
        root: String,
    },
    /// Release a view.
    Unpin {
        /// The view.
        view: u64,
    },
}

/// The answer of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ReadAnswer {
    /// The host cannot answer for the partition. For example, its database is not open, a session
    /// restores it, or its epoch cannot be applied.
    Absent,
    /// A view is pinned.
    Pinned {
        /// The view.
        view: u64,
        /// The epoch of the view.
        #[serde(flatten)]
        at: ReadEpoch,
    },
    /// The host's figures.
    Metrics {
        /// The figures.
        metrics: HostMetrics,
    },
    /// Rows of a read.
    Rows {
        /// Whether another batch follows.
        more: bool,
        /// The epoch of the rows.
        #[serde(flatten)]
        at: ReadEpoch,
    },
}

/// The epoch of a view, and the digest that shows that the epoch is the decided one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// The digest of the partition's chain after the epoch.
    pub chain: Digest,
}

/// Parses the JSON of a request or an answer.
///
/// # Errors
/// `InvalidState` if reader and host are of different versions.
pub fn parse<'a, T: Deserialize<'a>>(json: Option<&'a str>) -> Result<T> {
    serde_json::from_str(json.unwrap_or_default()).map_err(|error| {
        let text = format!("a read cannot be parsed ({error}): {OTHER_VERSION}");
        Error::new(ErrorKind::InvalidState, text)
    })
}

/// Writes a request or an answer as JSON.
///
/// # Errors
/// `Serialization` if it cannot be written.
pub fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| not_written(&error))
}

/// The error of a request or an answer that cannot be encoded.
pub fn not_written(error: &impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!("a read cannot be sent: {error}"),
    )
}
