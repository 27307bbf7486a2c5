//! Reads of a few keys: the rows come as they are stored, and the reader decodes them.
//!
//! A row is about a hundred bytes, and a [`CallMessage`](crate::net::call::CallMessage) around it
//! costs more than the read. `ReadStored` contains a [`StoredRead`], and its `Answer` a
//! [`StoredAnswer`], both encoded with `postcard`. The request is at most a usual one
//! ([`USUAL_REQUEST`](crate::net::request::USUAL_REQUEST)), because a decoded key may take 32 times
//! its bytes.

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::net::OTHER_VERSION;
use crate::net::read::{ReadEpoch, ReadTarget};

/// Asks for the rows of keys of one table, in the newest final epoch. `K` is the type of the keys
/// as they are stored, with the times beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRead<K> {
    /// The partition.
    pub target: ReadTarget,
    /// The table.
    pub store: String,
    /// The keys.
    pub keys: K,
}

/// What a host answers. `R` is the type of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredAnswer<R> {
    /// As [`ReadAnswer::Absent`](crate::net::read::ReadAnswer::Absent).
    Absent,
    /// The rows are too large for one answer.
    TooLarge {
        /// The epoch of the rows.
        at: ReadEpoch,
    },
    /// The rows.
    Rows {
        /// The epoch of the rows.
        at: ReadEpoch,
        /// One for each key; none where the key was not found.
        rows: Vec<Option<R>>,
    },
}

/// Encodes a request or an answer.
///
/// # Errors
/// `Serialization` if it cannot be encoded.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(|error| {
        let text = format!("a read of keys cannot be sent: {error}");
        Error::new(ErrorKind::Serialization, text)
    })
}

/// Decodes a request or an answer.
///
/// # Errors
/// `InvalidState` if reader and host are of different versions.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let damaged = |why: &str| {
        let text = format!("a read of keys cannot be parsed ({why}): {OTHER_VERSION}");
        Error::new(ErrorKind::InvalidState, text)
    };
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(damaged("bytes follow it")),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Digest, Epoch, IsolationLevel, OperatorName, PartitionId};

    #[test]
    fn requests_and_answers_arrive_and_damaged_ones_are_errors() {
        let read = StoredRead {
            target: ReadTarget {
                root: "root".to_owned(),
                operator: OperatorName::new("join").expect("a name"),
                partition: PartitionId(3),
                isolation_level: IsolationLevel::ReadUncommitted,
            },
            store: "table".to_owned(),
            keys: vec![Some("key".to_owned()), None],
        };
        let bytes = encode(&read).expect("encoded");
        assert!(bytes.len() < 50, "{} bytes", bytes.len());
        assert_eq!(
            decode::<StoredRead<Vec<Option<String>>>>(&bytes).expect("whole"),
            read
        );
        let answer = StoredAnswer::Rows {
            at: ReadEpoch {
                epoch: Epoch(7),
                chain: Digest::of(b"chain"),
            },
            rows: vec![Some("value".to_owned()), None],
        };
        let sent = encode(&answer).expect("encoded");
        assert!(sent.len() < 30, "{} bytes", sent.len());
        let received: StoredAnswer<String> = decode(&sent).expect("whole");
        assert_eq!(received, answer);
        for cut in 0..bytes.len() {
            assert!(decode::<StoredRead<Vec<Option<String>>>>(&bytes[..cut]).is_err());
        }
        let longer = [&bytes[..], b"0"].concat();
        assert!(decode::<StoredRead<Vec<Option<String>>>>(&longer).is_err());
    }
}
