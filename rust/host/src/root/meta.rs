//! `meta.json`: whose root this is.

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::store::Put;
use super::{Root, names};
use crate::protocol::{Epoch, Violation};

const FORMAT: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Meta {
    format: u32,
    query_id: String,
    partitions: u32,
}

/// The format alone: a newer one may have other fields.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Root {
    /// Checks that the root belongs to this query with this many partitions. In epoch 0 a root
    /// without owner is taken, once a probe has shown that its store keeps put-if-absent.
    ///
    /// # Errors
    /// `StateMismatch` for another query's root, another partition count, or state that is missing
    /// in a later epoch; `FormatVersion` for another format; `UnsupportedOperation` for a store
    /// without put-if-absent.
    pub fn meta(&self, query_id: &str, partitions: u32, epoch: Epoch) -> Result<()> {
        let found = match self.store.get(names::META)? {
            Some(found) => found,
            None if epoch.0 > 0 => return Err(self.broken(Violation::StateMissing { epoch })),
            None => {
                self.probe()?;
                let meta = Meta {
                    format: FORMAT,
                    query_id: query_id.to_owned(),
                    partitions,
                };
                let json = serde_json::to_vec(&meta)
                    .map_err(|error| self.unreadable(names::META, &error))?;
                match self.store.put_absent(names::META, &json)? {
                    Put::Own => return Ok(()),
                    Put::Other(found) => found,
                }
            }
        };
        self.check(&found, query_id, partitions)
    }

    /// Proves that a second create fails: everything else hangs on it.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a store that lets it pass.
    pub fn probe(&self) -> Result<()> {
        let content = b"Holdfast tests with this object that it cannot be created twice.\n";
        if !self.store.refuses_second(names::PROBE, content)? {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                format!(
                    "the store of {} lets an object be created twice (put-if-absent does not \
                     work), so state cannot be kept there safely: choose another file system or \
                     store for the root",
                    self.path().display()
                ),
            ));
        }
        Ok(())
    }

    /// Which query this root is of, and how many partitions its state has.
    ///
    /// # Errors
    /// `StateMismatch` if it holds no state, `FormatVersion` for another format, `Restore` if it
    /// cannot be read.
    pub fn query(&self) -> Result<(String, u32)> {
        let found = self.store.get(names::META)?.ok_or_else(|| {
            let text = "there is no state here (meta.json is missing): give the root that \
                        State(...) was given";
            Error::new(ErrorKind::StateMismatch, text).path(self.path())
        })?;
        let Meta {
            query_id,
            partitions,
            ..
        } = self.parse(&found)?;
        Ok((query_id, partitions))
    }

    fn parse(&self, found: &[u8]) -> Result<Meta> {
        let Format { format } =
            serde_json::from_slice(found).map_err(|error| self.unreadable(names::META, &error))?;
        if format != FORMAT {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "the state in {} has format {format}, this version of Holdfast knows \
                     {FORMAT}: use the version that wrote it",
                    self.path().display()
                ),
            ));
        }
        serde_json::from_slice(found).map_err(|error| self.unreadable(names::META, &error))
    }

    fn check(&self, found: &[u8], query_id: &str, partitions: u32) -> Result<()> {
        let meta = self.parse(found)?;
        if meta.query_id != query_id {
            return Err(Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "the state in {} belongs to query {}, not to query {query_id}: a root serves \
                     one query. Give this query a root of its own, or (if its checkpoint was \
                     deleted) put the checkpoint back into query/; nothing was touched",
                    self.path().display(),
                    meta.query_id
                ),
            ));
        }
        if meta.partitions != partitions {
            return Err(Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "the state in {} has {} partitions, the query asks for {partitions}: start it \
                     with partitions={}, or begin anew with another root",
                    self.path().display(),
                    meta.partitions,
                    meta.partitions
                ),
            ));
        }
        Ok(())
    }

    /// An object of the root that is no JSON, or of other fields.
    pub(super) fn unreadable(&self, name: &str, error: &serde_json::Error) -> Error {
        let place = self.store.place(name);
        Error::new(
            ErrorKind::Restore,
            format!(
                "{} cannot be read ({error}): restore it from a backup",
                place.display()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::root::careless::{Careless, Fault};

    fn over(fault: Fault) -> Root {
        Root::over(Arc::new(Careless::new(fault)), Path::new("memory"))
    }

    #[test]
    fn a_store_that_creates_twice_is_refused() {
        let root = over(Fault::CreateOverwrites);
        let error = root.meta("q", 2, Epoch(0)).expect_err("not safe");
        assert_eq!(error.kind(), ErrorKind::UnsupportedOperation);
        assert!(error.to_string().contains("choose another"), "{error}");
        assert!(
            !root.store.exists(names::META).expect("looks"),
            "the root must stay unowned"
        );
        over(Fault::None)
            .meta("q", 2, Epoch(0))
            .expect("a good store is taken");
    }
}
