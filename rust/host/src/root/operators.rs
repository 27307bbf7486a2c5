//! `operators/<name>.json`: what an operator keeps, so that other code cannot misread it.

use std::collections::BTreeMap;

use arrow_schema::Field;
use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::Put;
use super::{Root, names};
use crate::protocol::{Epoch, OperatorName};

/// A column of an operator's keys or values. Whether it may be null is no part of it: the encoding has room for nulls
/// always, and Spark infers nullability anew from each plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its Arrow type, as Arrow writes it.
    #[serde(rename = "type")]
    pub data_type: String,
}

impl From<&Field> for Column {
    fn from(field: &Field) -> Self {
        Self { name: field.name().clone(), data_type: field.data_type().to_string() }
    }
}

/// What an operator keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorMeta {
    /// Which operator: `join_asof`, …
    pub kind: String,
    /// The key's columns, in order.
    pub key: Vec<Column>,
    /// The value's columns, in order.
    pub value: Vec<Column>,
    /// Settings that the state depends on (`history_retention`, …).
    pub settings: BTreeMap<String, Value>,
    /// The epoch in which the operator first took part. Kept as first written, not compared.
    pub first_epoch: Epoch,
}

impl Root {
    /// Writes down an operator, or checks that it is as it was written down; returns what is there.
    ///
    /// # Errors
    /// `TaskCorrupted` names the first column or setting that differs.
    pub fn operator(&self, name: &OperatorName, meta: &OperatorMeta) -> Result<OperatorMeta> {
        let file = names::operator(name);
        let unreadable = |error: serde_json::Error| {
            let place = self.store.place(&file);
            Error::new(ErrorKind::Restore, format!("{} cannot be read ({error}): restore it from a backup", place.display()))
        };
        let found = match self.store.get(&file)? {
            Some(found) => found,
            None => match self.store.put_absent(&file, &serde_json::to_vec(meta).map_err(unreadable)?)? {
                Put::Own => return Ok(meta.clone()),
                Put::Other(found) => found,
            },
        };
        let kept: OperatorMeta = serde_json::from_slice(&found).map_err(unreadable)?;
        match difference(&kept, meta) {
            None => Ok(kept),
            Some(what) => Err(Error::new(
                ErrorKind::TaskCorrupted,
                format!(
                    "operator {name}: {what}. Its state in {} was written otherwise: change the query back, or give the \
                     operator another name (name=...), which starts it with empty state",
                    self.path().display()
                ),
            )),
        }
    }
}

fn difference(kept: &OperatorMeta, now: &OperatorMeta) -> Option<String> {
    if kept.kind != now.kind {
        return Some(format!("the state is of {}, the query has {} under this name", kept.kind, now.kind));
    }
    columns("key", &kept.key, &now.key).or_else(|| columns("value", &kept.value, &now.value)).or_else(|| {
        let names = kept.settings.keys().chain(now.settings.keys());
        let shown = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), Value::to_string);
        names.into_iter().find_map(|name| {
            let (old, new) = (kept.settings.get(name), now.settings.get(name));
            (old != new).then(|| format!("setting {name} was {}, is {}", shown(old), shown(new)))
        })
    })
}

fn columns(part: &str, kept: &[Column], now: &[Column]) -> Option<String> {
    if let Some(gone) = kept.iter().find(|old| now.iter().all(|new| new.name != old.name)) {
        return Some(format!("{part} column {:?} is gone", gone.name));
    }
    if let Some(added) = now.iter().find(|new| kept.iter().all(|old| old.name != new.name)) {
        return Some(format!("{part} column {:?} is new", added.name));
    }
    for (old, new) in kept.iter().zip(now) {
        if old.name != new.name {
            return Some(format!("{part} column {:?} has moved (order matters)", new.name));
        }
        if old.data_type != new.data_type {
            return Some(format!("{part} column {:?} was {}, is {}", new.name, old.data_type, new.data_type));
        }
    }
    (kept.len() != now.len()).then(|| format!("the number of {part} columns differs"))
}
