//! Reads, writes and checks the operators of a root.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::difference;
use super::operator_meta::{
    OperatorMeta, PayloadSchema, PayloadVersion, RecordedOperator, StoredOperator, VersionStart,
};
use crate::codec::column::Column;
use crate::protocol::{Epoch, OperatorName, RunNumber, Violation};
use crate::root::epoch_log::EpochLog;
use crate::root::names;
use crate::root::objects::{Objects, PutOutcome};
use crate::root::run_claims::RunClaims;
use crate::root::snapshot_repository::SnapshotRepository;

/// The operators of a root.
#[derive(Debug)]
pub struct OperatorCatalog {
    objects: Arc<Objects>,
    runs: Arc<RunClaims>,
    pub(super) log: Arc<EpochLog>,
    pub(super) snapshots: Arc<SnapshotRepository>,
    /// Operators as a run found them.
    cached: Mutex<HashMap<OperatorName, CachedOperator>>,
}

/// What a run found for an operator with this description.
type CachedOperator = (RunNumber, OperatorMeta, Arc<StoredOperator>);

impl OperatorCatalog {
    /// The operators of a root.
    pub(in crate::root) fn new(
        objects: Arc<Objects>,
        runs: Arc<RunClaims>,
        log: Arc<EpochLog>,
        snapshots: Arc<SnapshotRepository>,
    ) -> Self {
        Self {
            objects,
            runs,
            log,
            snapshots,
            cached: Mutex::default(),
        }
    }

    /// Writes a new operator, or checks that the stored one fits; returns the stored operator.
    ///
    /// New payload columns are written as the next version. An operator that was written and then
    /// took no part (its first task failed, for example) is replaced. This is done once per run,
    /// because only a newer run can change the operator.
    ///
    /// # Errors
    /// `StateMismatch` names the first column or setting that differs, or the operator's object if
    /// it was lost; `InvalidValue` a column that the root cannot store, `Restore` an object that
    /// cannot be read. `Fenced` if a newer run has claimed.
    pub fn register(
        &self,
        name: &OperatorName,
        meta: &OperatorMeta,
        run: RunNumber,
        partitions: u32,
    ) -> Result<Arc<StoredOperator>> {
        if let Some((of_run, of_meta, stored)) = self.cached.lock().get(name)
            && *of_run == run
            && *of_meta
                == (OperatorMeta {
                    first_epoch: of_meta.first_epoch,
                    ..meta.clone()
                })
        {
            return Ok(Arc::clone(stored));
        }
        let stored = Arc::new(self.read_or_write(name, meta, run, partitions)?);
        self.cached
            .lock()
            .insert(name.clone(), (run, meta.clone(), Arc::clone(&stored)));
        Ok(stored)
    }

    /// Returns an operator as this process last registered it; none if it did not.
    pub fn registered(&self, operator: &OperatorName) -> Option<Arc<StoredOperator>> {
        let cached = self.cached.lock();
        cached
            .get(operator)
            .map(|(_, _, stored)| Arc::clone(stored))
    }

    /// Lists the names of all operators.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn names(&self) -> Result<Vec<OperatorName>> {
        let files = self.objects.list(names::OPERATORS)?;
        // Names contain no dot, so `<name>.<version>.json` is not taken for an operator.
        Ok(files
            .iter()
            .filter_map(|file| OperatorName::new(file.strip_suffix(".json")?).ok())
            .collect())
    }

    /// Returns the epoch in which an operator first took part.
    ///
    /// # Errors
    /// `Restore` if its object is missing or cannot be read.
    pub fn first_epoch(&self, operator: &OperatorName) -> Result<Epoch> {
        Ok(self.first_meta(operator)?.first_epoch)
    }

    /// Returns what the root records of an operator.
    ///
    /// # Errors
    /// As [`OperatorCatalog::first_epoch`].
    pub fn recorded(&self, operator: &OperatorName) -> Result<RecordedOperator> {
        let meta = self.first_meta(operator)?;
        let mut payloads = vec![meta.payload.clone()];
        while let Ok(next) = u16::try_from(payloads.len()) {
            let file = names::operator_payload(operator, next);
            match self.objects.get_json::<PayloadSchema>(&file)? {
                Some(payload) => payloads.push(payload),
                None => break,
            }
        }
        Ok(RecordedOperator { meta, payloads })
    }

    fn first_meta(&self, operator: &OperatorName) -> Result<OperatorMeta> {
        let name = names::operator(operator);
        self.objects.get_json(&name)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Restore,
                format!(
                    "{} is missing: restore it from a backup",
                    self.objects.place(&name).display()
                ),
            )
        })
    }

    /// Lists all versions of the operators that first took part in this epoch or a later one.
    ///
    /// # Errors
    /// As [`OperatorCatalog::first_epoch`].
    pub fn begun_since(&self, epoch: Epoch) -> Result<Vec<String>> {
        let mut begun = Vec::new();
        for operator in self.names()? {
            if self.first_epoch(&operator)? >= epoch {
                begun.extend(self.versions(&operator)?);
            }
        }
        Ok(begun)
    }

    /// Lists the objects of an operator in the order of removal.
    ///
    /// The first one comes last: as long as it exists, a repeated command finds the operator.
    fn versions(&self, operator: &OperatorName) -> Result<Vec<String>> {
        let mut files = self.objects.list(names::OPERATORS)?;
        files.retain(|file| names::is_of_operator(file, operator));
        let folder = names::OPERATORS;
        let mut files: Vec<String> = files
            .iter()
            .map(|file| format!("{folder}/{file}"))
            .collect();
        let first = names::operator(operator);
        files.sort_unstable_by_key(|file| *file == first);
        Ok(files)
    }

    fn read_or_write(
        &self,
        name: &OperatorName,
        meta: &OperatorMeta,
        run: RunNumber,
        partitions: u32,
    ) -> Result<StoredOperator> {
        // A type that is written must be readable later.
        let mut columns = meta.payload.left.iter().chain(&meta.payload.right);
        if let Some(why) = columns.find_map(Column::unreadable) {
            let text = format!("operator {name}: {why}");
            return Err(Error::new(ErrorKind::InvalidValue, text).path(self.objects.path()));
        }
        let first = self.first_version(name, meta, run, partitions)?;
        let differs = |what: String, way: &str| {
            Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "operator {name}: {what}. Its state in {} was written differently: change the \
                     query back, {way}or give the operator another name (name=...), which starts \
                     it with empty state",
                    self.objects.path().display()
                ),
            )
        };
        if let Some(what) = difference::of_operator(&first, meta) {
            return Err(differs(what, ""));
        }
        let mut versions = vec![PayloadVersion {
            payload: first.payload,
            since: VersionStart::FIRST,
        }];
        loop {
            let next = u16::try_from(versions.len()).map_err(|_| {
                let text = format!(
                    "operator {name}: its columns have changed 65,535 times, which is the limit: \
                     give it another name (name=...), which starts it with empty state"
                );
                Error::new(ErrorKind::StateMismatch, text).path(self.objects.path())
            })?;
            let file = names::operator_payload(name, next);
            let newest = versions.last();
            let is_newest = newest.is_some_and(|newest| newest.payload == meta.payload);
            let version = match (self.objects.get_json::<PayloadVersion>(&file)?, is_newest) {
                (Some(version), _) => {
                    self.objects.sync_names(&file)?;
                    version
                }
                (None, true) => {
                    return Ok(StoredOperator {
                        first_epoch: first.first_epoch,
                        version: first_with(&versions, &meta.payload),
                        versions,
                    });
                }
                (None, false) => {
                    let changed = versions.iter().find_map(|version| {
                        difference::of_payload(&version.payload, &meta.payload)
                    });
                    if let Some(what) = changed {
                        return Err(differs(what, "give the column another name, "));
                    }
                    // Readers take the newest version for that of the query, so a host of an older
                    // run must not put one late. It must not use one either.
                    self.runs.fence(run)?;
                    let version = PayloadVersion {
                        payload: meta.payload.clone(),
                        since: VersionStart {
                            run,
                            epoch: meta.first_epoch,
                        },
                    };
                    let version = self.put(&file, &version)?;
                    self.runs.fence(run)?;
                    version
                }
            };
            versions.push(version);
        }
    }

    /// Reads `operators/<name>.json`; writes it if it is missing or its operator took no part.
    fn first_version(
        &self,
        name: &OperatorName,
        meta: &OperatorMeta,
        run: RunNumber,
        partitions: u32,
    ) -> Result<OperatorMeta> {
        let (file, epoch) = (names::operator(name), meta.first_epoch);
        let found = self.objects.get_json::<OperatorMeta>(&file)?;
        let stays = match &found {
            Some(first) => {
                first == meta || self.took_part(name, first.first_epoch, epoch, partitions)?
            }
            None => false,
        };
        let recorded = found.as_ref().map(|first| first.first_epoch);
        if !stays || recorded == Some(epoch) {
            self.check_is_new(name, recorded, epoch, partitions)?;
        }
        match found {
            Some(first) if stays => {
                // The host that put it may have been killed before it synced the name.
                self.objects.sync_names(&file)?;
                Ok(first)
            }
            Some(_) => {
                self.runs.fence(run)?;
                self.versions(name)?
                    .iter()
                    .try_for_each(|file| self.objects.remove(file))?;
                self.put(&file, meta)
            }
            None => self.put(&file, meta),
        }
    }

    /// Checks that an operator that begins with `epoch` took part in no earlier one.
    ///
    /// Its file in `operators/`, which has the first epoch `recorded`, may have been lost, or
    /// written last by a session from before a rewind. The operator would start again with empty
    /// state.
    fn check_is_new(
        &self,
        name: &OperatorName,
        recorded: Option<Epoch>,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<()> {
        let Some(earlier) = self.last_part(name, epoch, partitions)? else {
            return Ok(());
        };
        if let Some(first_epoch) = recorded {
            return Err(self.objects.violation(Violation::BegunEarlier {
                operator: name.clone(),
                first_epoch,
                earlier,
            }));
        }
        let file = names::operator(name);
        let text = format!(
            "{file} is missing, but the root holds epochs of {name}: restore it from a backup, or \
             give the operator another name (name=...), which starts it with empty state"
        );
        Err(Error::new(ErrorKind::StateMismatch, text).path(self.objects.path()))
    }

    /// Puts an object if it is absent; returns the content that exists then.
    fn put<T: Serialize + DeserializeOwned + Clone>(&self, file: &str, content: &T) -> Result<T> {
        let bytes =
            serde_json::to_vec(content).map_err(|error| self.objects.unreadable(file, &error))?;
        match self.objects.put_absent(file, &bytes)? {
            PutOutcome::Ours => Ok(content.clone()),
            PutOutcome::Other(found) => self.objects.parse_json(file, &found),
        }
    }
}

/// Returns the first version with the same columns.
///
/// Each stored row has the number of its version, and an epoch's digest covers it. A query that
/// returns to earlier columns must reproduce the digests of the epochs that it computed with them.
fn first_with(versions: &[PayloadVersion], columns: &PayloadSchema) -> u16 {
    let is_same = |version: &PayloadVersion| {
        let stored = &version.payload;
        (&stored.left, &stored.right) == (&columns.left, &columns.right)
    };
    let first = versions.iter().position(is_same).unwrap_or_default();
    u16::try_from(first).unwrap_or(u16::MAX)
}
