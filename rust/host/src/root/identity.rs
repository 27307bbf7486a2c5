//! `meta.json`: which query a root belongs to, and how many partitions it has.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::names;
use super::objects::{Objects, PutOutcome};
use super::spark_checkpoint::SparkCheckpoint;
use crate::protocol::{Epoch, Violation};

const FORMAT: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RootMeta {
    format: u32,
    /// A random name. A root that was deleted and made again under its path has another one.
    id: String,
    query_id: String,
    partitions: u32,
}

/// The format alone, read first: a newer format may have other fields.
#[derive(Deserialize)]
struct RootFormat {
    format: u32,
}

/// The query and the partition count of a root.
#[derive(Debug)]
pub struct RootIdentity {
    objects: Arc<Objects>,
    spark: Arc<SparkCheckpoint>,
    /// The query, run and partition count of the last successful [`RootIdentity::check_query`].
    checked: Mutex<Option<(String, String, u32)>>,
    /// The id that the first check found.
    first_id: Mutex<Option<String>>,
}

/// The root under a path, compared with the root that was there first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootPresence {
    /// The same root, or the first check is still to come.
    Same,
    /// There is no root: it was deleted.
    Gone,
    /// Another root: the first one was deleted, and a new one was made.
    Another,
}

impl RootIdentity {
    /// The identity of a root.
    pub(super) fn new(objects: Arc<Objects>, spark: Arc<SparkCheckpoint>) -> Self {
        Self {
            objects,
            spark,
            checked: Mutex::default(),
            first_id: Mutex::default(),
        }
    }

    /// Checks that checkpoint and state belong to this query.
    ///
    /// The check is done once per run, because later only a manual change could make it fail.
    ///
    /// Returns [`RootPresence::Another`] if the check passes, but the root is not the first one.
    /// The caller then opens the root again, because what was cached of the first root is wrong.
    ///
    /// # Errors
    /// Those of [`SparkCheckpoint::check`] and [`RootIdentity::check`].
    pub fn check_query(
        &self,
        query_id: &str,
        run_id: &str,
        partitions: u32,
        (epoch, in_streaming_plan): (Epoch, bool),
    ) -> Result<RootPresence> {
        let checked = Some((query_id.to_owned(), run_id.to_owned(), partitions));
        if *self.checked.lock() != checked {
            self.spark.check(query_id, epoch)?;
            let id = self.check(query_id, partitions, (epoch, in_streaming_plan))?;
            if *self.first_id.lock().get_or_insert_with(|| id.clone()) != id {
                return Ok(RootPresence::Another);
            }
            *self.checked.lock() = checked;
        }
        Ok(RootPresence::Same)
    }

    /// Compares the root that is under the path now with the first one.
    ///
    /// # Errors
    /// `Restore` for a `meta.json` that cannot be read, `Io` if the disk fails.
    pub fn presence(&self) -> Result<RootPresence> {
        let Some(first) = self.first_id.lock().clone() else {
            return Ok(RootPresence::Same);
        };
        Ok(match self.objects.get(names::META)? {
            None => RootPresence::Gone,
            Some(found) if self.parse(&found)?.id == first => RootPresence::Same,
            Some(_) => RootPresence::Another,
        })
    }

    /// Checks that the root belongs to this query with this many partitions; returns the root's id.
    ///
    /// A root that has had no state becomes this query's. If the operator is not in the streaming
    /// plan, this may be in a later epoch than 0: a `foreachBatch` function called no operator
    /// before. A probe first checks that the file system or the object store supports put if
    /// absent.
    ///
    /// # Errors
    /// `StateMismatch` for another query's root, another partition count, or deleted state;
    /// `FormatVersion` for another format; `Restore` for a `meta.json` that cannot be read;
    /// `UnsupportedOperation` for a store without put if absent.
    pub fn check(
        &self,
        query_id: &str,
        partitions: u32,
        (epoch, in_streaming_plan): (Epoch, bool),
    ) -> Result<String> {
        let mark = [names::STATE_MARK.to_owned()];
        let (found, marked) = self.objects.get_and_exist(names::META, &mark)?;
        let is_marked = marked == [true];
        let id = match found {
            Some(found) => {
                let id = self.check_meta(&found, query_id, partitions)?;
                if !is_marked {
                    // Another process may have made it. The mark must not be durable before it.
                    self.objects.sync(names::META)?;
                }
                id
            }
            None if epoch.0 > 0 && self.is_missing(is_marked || in_streaming_plan)? => {
                return Err(self.objects.violation(Violation::StateMissing { epoch }));
            }
            None => self.make(query_id, partitions)?,
        };
        if !is_marked {
            let text = b"Holdfast has state beside this checkpoint.\n";
            self.objects.put_absent(names::STATE_MARK, text)?;
        }
        Ok(id)
    }

    /// Whether the state of a root without `meta.json` is missing, in a later epoch than 0.
    fn is_missing(&self, must_exist: bool) -> Result<bool> {
        // A run is claimed only after `meta.json` is made.
        if !must_exist && self.objects.list(names::RUNS)?.is_empty() {
            return Ok(false);
        }
        // Another task may have made it since.
        Ok(!self.objects.exists(names::META)?)
    }

    /// Makes `meta.json`, unless another host has made it; returns the root's id.
    fn make(&self, query_id: &str, partitions: u32) -> Result<String> {
        self.probe()?;
        self.spark.sync_metadata()?;
        let meta = RootMeta {
            format: FORMAT,
            id: random_id(),
            query_id: query_id.to_owned(),
            partitions,
        };
        let json = serde_json::to_vec(&meta)
            .map_err(|error| self.objects.unreadable(names::META, &error))?;
        match self.objects.put_absent(names::META, &json)? {
            PutOutcome::Ours => Ok(meta.id),
            PutOutcome::Other(found) => self.check_meta(&found, query_id, partitions),
        }
    }

    /// Proves that a second create of an object fails; the whole protocol depends on it.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a store that accepts it; `Io` if the disk or the store fails.
    /// After an error the object may remain.
    pub fn probe(&self) -> Result<()> {
        let content = b"Holdfast tests with this object that it cannot be created twice.\n";
        // Two drivers may test at the same time, so each has an object of its own.
        let name = names::probe(&random_id());
        let refused = self.objects.refuses_second(&name, content);
        let removed = self.objects.remove(&name);
        if !refused? {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                format!(
                    "the store of {} lets an object be created twice (put-if-absent does not \
                     work), so state cannot be kept there safely: choose another file system or \
                     store for the root",
                    self.objects.path().display()
                ),
            ));
        }
        removed
    }

    /// Returns the root's query and the number of its partitions.
    ///
    /// # Errors
    /// `StateMismatch` if it holds no state, `FormatVersion` for another format, `Restore` if it
    /// cannot be read.
    pub fn query(&self) -> Result<(String, u32)> {
        let found = self
            .objects
            .get(names::META)?
            .ok_or_else(|| self.no_state())?;
        let RootMeta {
            query_id,
            partitions,
            ..
        } = self.parse(&found)?;
        Ok((query_id, partitions))
    }

    /// Returns the root's random id.
    ///
    /// # Errors
    /// As [`RootIdentity::query`].
    pub fn id(&self) -> Result<String> {
        let found = self
            .objects
            .get(names::META)?
            .ok_or_else(|| self.no_state())?;
        Ok(self.parse(&found)?.id)
    }

    /// Returns the id of the root that was there first; none before the first check.
    pub fn first_id(&self) -> Option<String> {
        self.first_id.lock().clone()
    }

    fn no_state(&self) -> Error {
        let text = "there is no state here (meta.json is missing): give the root that State(...) \
                    was given";
        Error::new(ErrorKind::StateMismatch, text).path(self.objects.path())
    }

    fn parse(&self, found: &[u8]) -> Result<RootMeta> {
        let RootFormat { format } = self.objects.parse_json(names::META, found)?;
        if format != FORMAT {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "the state in {} has format {format}, this version of Holdfast reads \
                     {FORMAT}: use the version that wrote it",
                    self.objects.path().display()
                ),
            ));
        }
        self.objects.parse_json(names::META, found)
    }

    fn check_meta(&self, found: &[u8], query_id: &str, partitions: u32) -> Result<String> {
        let meta = self.parse(found)?;
        let path = self.objects.path().display();
        if meta.query_id != query_id {
            return Err(Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "the state in {path} belongs to query {}, not to query {query_id}: a root \
                     serves one query. Give this query a root of its own, or (if its checkpoint \
                     was deleted) put the checkpoint back into query/; nothing was changed",
                    meta.query_id
                ),
            ));
        }
        if meta.partitions != partitions {
            return Err(Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "the state in {path} has {} partitions, the query asks for {partitions}: start \
                     it with partitions={}, or start with a new, empty root",
                    meta.partitions, meta.partitions
                ),
            ));
        }
        Ok(meta.id)
    }
}

/// Returns 32 random hexadecimal digits.
fn random_id() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::root::testing::{Fault, FaultyStore};

    fn identity(fault: Fault) -> RootIdentity {
        let store = Arc::new(FaultyStore::new(fault));
        let objects = Arc::new(Objects::over(store, Path::new("memory")));
        let spark = Arc::new(SparkCheckpoint::new(Arc::clone(&objects)));
        RootIdentity::new(objects, spark)
    }

    #[test]
    fn a_store_without_put_if_absent_is_refused() {
        let identity = identity(Fault::CreateOverwrites);
        let error = identity
            .check("q", 2, (Epoch(0), false))
            .expect_err("not safe");
        assert_eq!(error.kind(), ErrorKind::UnsupportedOperation);
        assert!(error.to_string().contains("choose another"), "{error}");
        assert!(
            !identity.objects.exists(names::META).expect("looks"),
            "the root must belong to no query"
        );
        self::identity(Fault::None)
            .check("q", 2, (Epoch(0), false))
            .expect("a good store is accepted");
    }
}
