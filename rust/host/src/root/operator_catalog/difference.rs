//! Compares an operator of the query with the one that the root holds.

use serde_json::Value;

use super::operator_meta::{OperatorMeta, PayloadSchema};
use super::store_serdes;
use crate::codec::column::Column;

/// Names the first part of an operator that has changed but must not.
pub fn of_operator(stored: &OperatorMeta, now: &OperatorMeta) -> Option<String> {
    if stored.kind != now.kind {
        return Some(format!(
            "the state is of {}, the query has {} under this name",
            stored.kind, now.kind
        ));
    }
    // The time column may have another name now.
    if let (Some(old), Some(new)) = (&stored.time, &now.time)
        && old.data_type != new.data_type
    {
        return Some(format!(
            "time column {:?} was {} and is now {}",
            new.name, old.data_type, new.data_type
        ));
    }
    columns("key", &stored.key, &now.key)
        .or_else(|| columns("value", &stored.value, &now.value))
        .or_else(|| {
            let names = stored.settings.keys().chain(now.settings.keys());
            let shown = |value: Option<&Value>| {
                value.map_or_else(|| "not set".to_owned(), Value::to_string)
            };
            names.into_iter().find_map(|name| {
                let (old, new) = (stored.settings.get(name), now.settings.get(name));
                (old != new).then(|| {
                    format!(
                        "setting {name} was {} and is now {}",
                        shown(old),
                        shown(new)
                    )
                })
            })
        })
}

/// Names the first payload column whose type has changed, or the first store whose new serdes
/// cannot read the stored bytes.
pub fn of_payload(stored: &PayloadSchema, now: &PayloadSchema) -> Option<String> {
    other_type(stored, now).or_else(|| store_serdes::difference(&stored.serdes, &now.serdes))
}

fn other_type(stored: &PayloadSchema, now: &PayloadSchema) -> Option<String> {
    let sides = [
        ("left", &stored.left, &now.left),
        ("right", &stored.right, &now.right),
    ];
    sides.into_iter().find_map(|(side, stored, now)| {
        let of_name = |old: &Column| now.iter().find(|new| new.name == old.name);
        stored.iter().find_map(|old| {
            let new = of_name(old).filter(|new| new.data_type != old.data_type)?;
            Some(format!(
                "{side} column {:?} was {} and is now {}",
                new.name, old.data_type, new.data_type
            ))
        })
    })
}

fn columns(part: &str, stored: &[Column], now: &[Column]) -> Option<String> {
    if let Some(gone) = stored
        .iter()
        .find(|old| now.iter().all(|new| new.name != old.name))
    {
        return Some(format!("{part} column {:?} is gone", gone.name));
    }
    if let Some(added) = now
        .iter()
        .find(|new| stored.iter().all(|old| old.name != new.name))
    {
        return Some(format!("{part} column {:?} is new", added.name));
    }
    for (old, new) in stored.iter().zip(now) {
        if old.name != new.name {
            return Some(format!(
                "{part} column {:?} has moved (order matters)",
                new.name
            ));
        }
        if old.data_type != new.data_type {
            return Some(format!(
                "{part} column {:?} was {} and is now {}",
                new.name, old.data_type, new.data_type
            ));
        }
    }
    (stored.len() != now.len()).then(|| format!("the number of {part} columns differs"))
}
