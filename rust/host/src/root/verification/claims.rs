//! Verifies the small objects: `meta.json`, runs, owners, addresses for readers, operators,
//! rewinds, Spark's query id.

use std::collections::BTreeSet;

use holdfast_core::{ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::walk::VerificationWalk;
use crate::protocol::{Claim, OperatorName, Owner, RunNumber};
use crate::root::ReaderAddress;
use crate::root::names;
use crate::root::rewind_marks::{RewindMark, Rewinds};

impl VerificationWalk<'_> {
    /// Returns query and partitions, or none if `meta.json` is damaged.
    ///
    /// # Errors
    /// `StateMismatch` if there is no `meta.json`.
    pub(super) fn meta(&mut self) -> Result<Option<(String, u32)>> {
        match self.root.identity.query() {
            Err(error) if error.kind() == ErrorKind::StateMismatch => Err(error),
            read => self.content(names::META, read),
        }
    }

    /// Checks runs, owners and addresses, and that Spark's checkpoint belongs to this query.
    pub(super) fn claims(&mut self, query: &str) -> Result<()> {
        let id = self.root.spark.query_id();
        match self.content(names::SPARK_METADATA, id)? {
            Some(Some(id)) if id != query => {
                let problem = format!("it is of query {id}, but the state is of query {query}");
                self.found(names::SPARK_METADATA, problem);
            }
            Some(None) => self.found(
                names::SPARK_METADATA,
                "it is missing: restore Spark's checkpoint from a backup",
            ),
            Some(Some(_)) | None => {}
        }
        self.runs(query)?;
        for folder in ["owners", "readers"] {
            for operator in self.root.objects.folders(folder)? {
                let of_operator = format!("{folder}/{operator}");
                for partition in self.root.objects.folders(&of_operator)? {
                    let names = self.files(&format!("{of_operator}/{partition}"))?;
                    for name in names {
                        if folder == "owners" {
                            self.json::<Owner>(&name)?;
                        } else {
                            self.json::<ReaderAddress>(&name)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that the claims of runs have no gap, belong to this query, and have their marks.
    fn runs(&mut self, query: &str) -> Result<()> {
        let files = self.root.objects.list(names::RUNS)?;
        let numbers: BTreeSet<u64> = files.iter().filter_map(|file| file.parse().ok()).collect();
        for number in 1..=numbers.last().copied().unwrap_or(0) {
            let name = names::claim(RunNumber(number));
            if !numbers.contains(&number) {
                self.found(name, "it is missing: restore it from a backup");
                continue;
            }
            let Some(claim) = self.json::<Claim>(&name)? else {
                continue;
            };
            if claim.query_id != query {
                let other = &claim.query_id;
                self.found(name, format!("it is a claim of query {other}, not {query}"));
            }
            let mark = names::run_mark(&claim.run_id);
            if self.root.objects.exists(&mark)? {
                self.json::<Value>(&mark)?;
            } else {
                let problem = format!("it is missing, or the claim of run {number} was changed");
                self.found(mark, problem);
            }
        }
        Ok(())
    }

    /// Checks that each run with objects in the log has its claim.
    pub(super) fn runs_of_log(&mut self) -> Result<()> {
        for run in std::mem::take(&mut self.runs) {
            let name = names::claim(run);
            let is_found = self.report.damage.iter().any(|found| found.object == name);
            if !is_found && !self.root.objects.exists(&name)? {
                self.found(name, "it is missing: restore it from a backup");
            }
        }
        Ok(())
    }

    /// Checks that all versions of each operator can be read, and that none is missing in between.
    pub(super) fn operators(&mut self) -> Result<()> {
        let files = self.files(names::OPERATORS)?;
        let named = |name: &String| {
            let file = name.rsplit('/').next()?;
            OperatorName::new(file.split('.').next()?).ok()
        };
        let operators: BTreeSet<OperatorName> = files.iter().filter_map(named).collect();
        for operator in operators {
            let first = names::operator(&operator);
            let recorded = self.root.operators.recorded(&operator);
            let Some(recorded) = self.content(&first, recorded)? else {
                continue;
            };
            let is_version = |file: &&String| named(file).as_ref() == Some(&operator);
            let versions = files.iter().filter(is_version).count();
            if recorded.payloads.len() < versions {
                let missing = u16::try_from(recorded.payloads.len()).unwrap_or(u16::MAX);
                let name = names::operator_payload(&operator, missing);
                self.found(name, "it is missing: restore it from a backup");
            }
        }
        Ok(())
    }

    /// Returns the rewinds, or none if a mark is damaged: then neither the log nor the snapshots
    /// can be verified.
    pub(super) fn rewinds(&mut self) -> Result<Option<Rewinds>> {
        let mut is_whole = true;
        for name in self.files(names::REWINDS)? {
            is_whole &= self.json::<RewindMark>(&name)?.is_some();
        }
        if !is_whole {
            let problem = "it was not verified, since a mark of a rewind is damaged";
            self.found(names::LOG, problem);
            return Ok(None);
        }
        self.root.log.marks().read().map(Some)
    }

    /// Lists the full names of a folder's objects, in order.
    fn files(&self, folder: &str) -> Result<Vec<String>> {
        let mut files = self.root.objects.list(folder)?;
        files.sort_unstable();
        Ok(files
            .iter()
            .map(|file| format!("{folder}/{file}"))
            .collect())
    }

    /// Parses an object; none if it is damaged, or if it was removed since it was listed.
    fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        let read = self.root.objects.get_json::<T>(name);
        self.content(name, read).map(Option::flatten)
    }
}
