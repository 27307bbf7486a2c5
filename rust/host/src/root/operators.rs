//! `operators/<name>.json`: what an operator keeps, so that other code cannot misread it.
//!
//! Payload columns may be added and dropped from start to start (`spark.md` section 4), and so may
//! the columns of a processor's values: `operators/<name>.<n>.json` are those of version n, from 1.
//! Everything else is fixed with the first epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::serdes::{self, StoreSerdes};
use super::store::Put;
use super::{Root, names};
use crate::codec::column::Column;
use crate::protocol::{self, Decision, Epoch, OperatorName, RunNumber};

/// Payload columns that an operator stores rows of, a side each, and what a processor stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Of the left side, or the only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Column>,
    /// Of the right side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub right: Vec<Column>,
    /// Of a processor's stores, by name; none of stores of bytes, and in a root that was written
    /// before these were.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub serdes: BTreeMap<String, StoreSerdes>,
}

/// What an operator keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorMeta {
    /// Which operator: `join_asof`, …
    pub kind: String,
    /// The key's columns, in order.
    pub key: Vec<Column>,
    /// What its rows' times are called, and their type: stored times are numbers, of a moment or of
    /// a wall clock. None where they have none, and in a root that was written before this was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Column>,
    /// What it keeps that is made of several rows (an aggregation's columns), in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<Column>,
    /// The columns of rows that it keeps as they came: these may change.
    #[serde(flatten)]
    pub payload: Payload,
    /// Settings that the state depends on (`history_retention`, …).
    pub settings: BTreeMap<String, Value>,
    /// The epoch in which the operator first took part. Kept as first written, not compared.
    pub first_epoch: Epoch,
}

/// What the root remembers of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOperator {
    /// The epoch in which it first took part.
    pub first_epoch: Epoch,
    /// Its payload columns, by version.
    pub payloads: Vec<Payload>,
    /// The version of the query's own.
    pub version: u16,
}

/// What was found for an operator: of which run, for which code.
pub(super) type Known = (RunNumber, OperatorMeta, Arc<KeptOperator>);

impl Root {
    /// Writes down an operator, or checks that it may go on with what was written down; returns
    /// what is there then. Other payload columns than those of all versions so far are written down
    /// as the next version. What was written down of an operator that then took no part (its first
    /// task failed, say) is replaced. Looked at once a run: only a newer run could change it.
    ///
    /// # Errors
    /// `StateMismatch` names the first column or setting that differs, `Restore` what cannot be
    /// read.
    pub fn operator(
        &self,
        name: &OperatorName,
        meta: &OperatorMeta,
        run: RunNumber,
        partitions: u32,
    ) -> Result<Arc<KeptOperator>> {
        if let Some((of_run, of_meta, kept)) = self.operators.lock().get(name)
            && *of_run == run
            && *of_meta
                == (OperatorMeta {
                    first_epoch: of_meta.first_epoch,
                    ..meta.clone()
                })
        {
            return Ok(Arc::clone(kept));
        }
        let kept = Arc::new(self.read_operator(name, meta, run, partitions)?);
        self.operators
            .lock()
            .insert(name.clone(), (run, meta.clone(), Arc::clone(&kept)));
        Ok(kept)
    }

    fn read_operator(
        &self,
        name: &OperatorName,
        meta: &OperatorMeta,
        run: RunNumber,
        partitions: u32,
    ) -> Result<KeptOperator> {
        // What is written down once must be read ever after.
        let mut columns = meta.payload.left.iter().chain(&meta.payload.right);
        if let Some(column) = columns.find(|column| !column.is_readable()) {
            let text = format!(
                "operator {name}: column {:?} is {}, and the state's root cannot keep such names \
                 of fields: rename the field inside of it (no backslash, no line break, no other \
                 invisible character, not empty)",
                column.name, column.data_type
            );
            return Err(Error::new(ErrorKind::InvalidValue, text).path(self.path()));
        }
        let file = names::operator(name);
        let first = match self.read::<OperatorMeta>(&file)? {
            Some(first)
                if first == *meta
                    || self.took_part(name, first.first_epoch, meta.first_epoch, partitions)? =>
            {
                first
            }
            Some(_) => {
                self.fence(run)?;
                let files = self.store.list(names::OPERATORS)?;
                let of_it = files
                    .iter()
                    .filter(|file| names::is_of_operator(file, name));
                of_it
                    .map(|file| format!("{}/{file}", names::OPERATORS))
                    .try_for_each(|file| self.store.remove(&file))?;
                self.put(&file, meta)?
            }
            None => {
                self.check_is_new(name, meta.first_epoch)?;
                self.put(&file, meta)?
            }
        };
        let differs = |what: String| {
            Error::new(
                ErrorKind::StateMismatch,
                format!(
                    "operator {name}: {what}. Its state in {} was written otherwise: change the \
                     query back, or give the operator another name (name=...), which starts it \
                     with empty state",
                    self.path().display()
                ),
            )
        };
        if let Some(what) = difference(&first, meta) {
            return Err(differs(what));
        }
        let mut payloads = vec![first.payload];
        loop {
            let next = u16::try_from(payloads.len())
                .map_err(|_| differs("its columns have changed 65,535 times".to_owned()))?;
            let file = names::operator_payload(name, next);
            let known = payloads.iter().position(|payload| *payload == meta.payload);
            match (
                self.read(&file)?,
                known.and_then(|known| u16::try_from(known).ok()),
            ) {
                (Some(payload), _) => payloads.push(payload),
                (None, Some(version)) => {
                    return Ok(KeptOperator {
                        first_epoch: first.first_epoch,
                        payloads,
                        version,
                    });
                }
                (None, None) => {
                    let other = |kept: &Payload| {
                        other_type(kept, &meta.payload)
                            .or_else(|| serdes::difference(&kept.serdes, &meta.payload.serdes))
                    };
                    if let Some(what) = payloads.iter().find_map(other) {
                        return Err(differs(what));
                    }
                    payloads.push(self.put(&file, &meta.payload)?);
                }
            }
        }
    }

    /// Whether an operator has taken part since it was written down, as far as `epoch`, which is
    /// computed now. Where the log does not say that it has not, it has: the log may have been cut,
    /// or lost.
    fn took_part(
        &self,
        name: &OperatorName,
        first: Epoch,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<bool> {
        let objects = self.objects(None, first)?;
        let of_it = |run: Option<RunNumber>| {
            objects
                .iter()
                .any(|object| object.operator == *name && run.is_none_or(|run| run == object.run))
        };
        if first == epoch {
            return Ok(of_it(None));
        }
        let left_out = match protocol::decide(&objects, partitions) {
            Decision::Run(run) => !of_it(Some(run)),
            Decision::Partial { .. } | Decision::Nothing => false,
        };
        Ok(!left_out
            || self.went_on(first, |other| other == name)?
            || !self.all_snapshots(name)?.is_empty())
    }

    /// Checks that an operator of which nothing is written down takes part for the first time: what
    /// was written down may have been lost, and its state would begin anew, empty.
    fn check_is_new(&self, name: &OperatorName, first_epoch: Epoch) -> Result<()> {
        let Some(before) = first_epoch.previous() else {
            return Ok(());
        };
        if self.objects(Some(name), before)?.is_empty()
            && self.all_snapshots(name)?.iter().all(|id| id.epoch > before)
        {
            return Ok(());
        }
        let file = names::operator(name);
        let text = format!(
            "{file} is missing, but the root holds epochs of {name}: restore it from a backup, or \
             give the operator another name (name=...), which starts it with empty state"
        );
        Err(Error::new(ErrorKind::StateMismatch, text).path(self.path()))
    }

    fn put<T: Serialize + for<'de> Deserialize<'de> + Clone>(
        &self,
        file: &str,
        content: &T,
    ) -> Result<T> {
        let bytes = serde_json::to_vec(content).map_err(|error| self.unreadable(file, &error))?;
        match self.store.put_absent(file, &bytes)? {
            Put::Own => Ok(content.clone()),
            Put::Other(found) => {
                serde_json::from_slice(&found).map_err(|error| self.unreadable(file, &error))
            }
        }
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, file: &str) -> Result<Option<T>> {
        let Some(found) = self.store.get(file)? else {
            return Ok(None);
        };
        serde_json::from_slice(&found)
            .map(Some)
            .map_err(|error| self.unreadable(file, &error))
    }
}

fn difference(kept: &OperatorMeta, now: &OperatorMeta) -> Option<String> {
    if kept.kind != now.kind {
        return Some(format!(
            "the state is of {}, the query has {} under this name",
            kept.kind, now.kind
        ));
    }
    // It may be called otherwise now.
    if let (Some(old), Some(new)) = (&kept.time, &now.time)
        && old.data_type != new.data_type
    {
        return Some(format!(
            "time column {:?} was {}, is {}",
            new.name, old.data_type, new.data_type
        ));
    }
    columns("key", &kept.key, &now.key)
        .or_else(|| columns("value", &kept.value, &now.value))
        .or_else(|| {
            let names = kept.settings.keys().chain(now.settings.keys());
            let shown = |value: Option<&Value>| {
                value.map_or_else(|| "not set".to_owned(), Value::to_string)
            };
            names.into_iter().find_map(|name| {
                let (old, new) = (kept.settings.get(name), now.settings.get(name));
                (old != new)
                    .then(|| format!("setting {name} was {}, is {}", shown(old), shown(new)))
            })
        })
}

/// A payload column that has changed its type since.
fn other_type(kept: &Payload, now: &Payload) -> Option<String> {
    let sides = [
        ("left", &kept.left, &now.left),
        ("right", &kept.right, &now.right),
    ];
    sides.into_iter().find_map(|(side, kept, now)| {
        let of_name = |old: &Column| now.iter().find(|new| new.name == old.name);
        kept.iter().find_map(|old| {
            let new = of_name(old).filter(|new| new.data_type != old.data_type)?;
            Some(format!(
                "{side} column {:?} was {}, is {}",
                new.name, old.data_type, new.data_type
            ))
        })
    })
}

fn columns(part: &str, kept: &[Column], now: &[Column]) -> Option<String> {
    if let Some(gone) = kept
        .iter()
        .find(|old| now.iter().all(|new| new.name != old.name))
    {
        return Some(format!("{part} column {:?} is gone", gone.name));
    }
    if let Some(added) = now
        .iter()
        .find(|new| kept.iter().all(|old| old.name != new.name))
    {
        return Some(format!("{part} column {:?} is new", added.name));
    }
    for (old, new) in kept.iter().zip(now) {
        if old.name != new.name {
            return Some(format!(
                "{part} column {:?} has moved (order matters)",
                new.name
            ));
        }
        if old.data_type != new.data_type {
            return Some(format!(
                "{part} column {:?} was {}, is {}",
                new.name, old.data_type, new.data_type
            ));
        }
    }
    (kept.len() != now.len()).then(|| format!("the number of {part} columns differs"))
}
