//! The tables of an operator, from what the root records of it.

use arrow_schema::{DataType, Field};
use holdfast_core::serde::Serde;
use holdfast_core::{Result, StoreKind};
use serde_json::Value;

use super::key_form::KeyForm;
use super::state_table::StateTable;
use super::value_form::ValueForm;
use crate::codec::column::Column;
use crate::operator::aggregate::StoredGroups;
use crate::root::{PayloadSchema, RecordedOperator, StoredStore, descriptor_bytes};

/// The prefix of the names of a processor's internal stores.
const OWN_STORE: &str = "holdfast.";

/// Which payload columns a store's rows have.
#[derive(Clone, Copy)]
enum Side {
    Left,
    /// The same, with the foreign key before the payload.
    LeftOfForeignKey,
    Right,
}

/// Returns the tables of an operator.
///
/// Stores with internal rows are left out: rows that wait for other rows, and rows that only the
/// operator's own code can interpret.
///
/// # Errors
/// `Restore` if a column's type cannot be read; `InvalidValue` or `Serialization` if a serde's
/// descriptor cannot be read.
pub fn operator_tables(operator: &RecordedOperator) -> Result<Vec<StateTable>> {
    let tables = operator.stores().iter().map(|store| {
        let table = match (operator.meta.kind.as_str(), store.name.as_str()) {
            ("process", name) if name.starts_with(OWN_STORE) => return Ok(None),
            ("process", _) => process_table(operator, store)?,
            ("aggregate", "groups") => return group_table(operator, store),
            ("drop_duplicates", "seen") => time_table(operator, store)?,
            ("materialize", "table") => row_table(operator, store, Side::Left)?,
            ("foreign_left", "table") => row_table(operator, store, Side::LeftOfForeignKey)?,
            ("join_asof", "table") => row_table(operator, store, Side::Right)?,
            ("join_table", "left") => row_table(operator, store, Side::Left)?,
            ("join_table", "right") => row_table(operator, store, Side::Right)?,
            _ => return Ok(None),
        };
        Ok(Some(table))
    });
    tables.filter_map(Result::transpose).collect()
}

/// The table of a store that holds rows of the input, by the operator's key.
fn row_table(operator: &RecordedOperator, store: &StoredStore, side: Side) -> Result<StateTable> {
    let meta = &operator.meta;
    let of_side = |payload: &PayloadSchema| -> Result<Vec<Field>> {
        let columns = match side {
            Side::Left | Side::LeftOfForeignKey => &payload.left,
            Side::Right => &payload.right,
        };
        fields(columns)
    };
    let versions = operator.payloads.iter().map(of_side);
    let versions = versions.collect::<Result<Vec<_>>>()?;
    let value = match side {
        Side::Left | Side::Right => ValueForm::payload(&versions)?,
        Side::LeftOfForeignKey => ValueForm::payload_of_left_row(&versions)?,
    };
    let time = meta.time.as_ref().map(Column::field).transpose()?;
    Ok(StateTable::new(
        &store.name,
        StoreKind::from(store.kind),
        KeyForm::columns(fields(&meta.key)?)?,
        value,
        time.as_ref(),
    ))
}

/// The table of a store that holds one time for each key.
fn time_table(operator: &RecordedOperator, store: &StoredStore) -> Result<StateTable> {
    let meta = &operator.meta;
    let time = meta.time.as_ref().map(Column::field).transpose()?;
    Ok(StateTable::new(
        &store.name,
        StoreKind::from(store.kind),
        KeyForm::columns(fields(&meta.key)?)?,
        ValueForm::nothing(),
        time.as_ref(),
    ))
}

/// The table of an aggregation's groups; none if a reader cannot compute their results.
fn group_table(operator: &RecordedOperator, store: &StoredStore) -> Result<Option<StateTable>> {
    let meta = &operator.meta;
    let setting = |name: &str| meta.settings.get(name).and_then(Value::as_i64);
    // A sliding window is made of several stored groups.
    if setting("sliding").is_some() {
        return Ok(None);
    }
    let Some(groups) = StoredGroups::of(meta)? else {
        return Ok(None);
    };
    let time = meta.time.as_ref().map(Column::field).transpose()?;
    Ok(Some(StateTable::of_groups(
        &store.name,
        StoreKind::from(store.kind),
        KeyForm::columns(fields(&meta.key)?)?,
        ValueForm::groups(groups),
        (time.as_ref(), setting("gap").unwrap_or(0)),
    )))
}

/// The table of a store that a processor's code uses.
fn process_table(operator: &RecordedOperator, store: &StoredStore) -> Result<StateTable> {
    let newest = operator.payloads.last();
    let serdes = newest.and_then(|payload| payload.serdes.get(&store.name));
    let side = |hex: Option<&String>, name: &str| -> Result<(Field, Option<Serde>)> {
        let serde = hex
            .map(|hex| Serde::of_descriptor(&descriptor_bytes(hex)?))
            .transpose()?;
        let data_type = serde
            .as_ref()
            .map_or(DataType::Binary, |serde| serde.data_type().clone());
        Ok((Field::new(name, data_type, true), serde))
    };
    let (key, key_serde) = side(serdes.and_then(|serdes| serdes.key.as_ref()), "key")?;
    let (value, value_serde) = side(serdes.and_then(|serdes| serdes.value.as_ref()), "value")?;
    Ok(StateTable::new(
        &store.name,
        StoreKind::from(store.kind),
        KeyForm::serde(key, key_serde),
        ValueForm::serde(value, value_serde),
        None,
    ))
}

fn fields(columns: &[Column]) -> Result<Vec<Field>> {
    columns.iter().map(Column::field).collect()
}
