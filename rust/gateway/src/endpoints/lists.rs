//! The roots, and the tables, hosts and partitions of one.

use axum::response::Response;
use holdfast_core::{Error, ErrorKind};
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::TableDescription;
use serde::Serialize;
use serde_json::{Value, json};

use super::asked::{Asked, json_response};
use crate::problem::Problem;

/// Lists the roots.
pub async fn roots(asked: Asked) -> Result<Response, Problem> {
    let state = asked.state;
    let roots = state.roots.clone();
    let list = move |_permit| {
        let list = roots.iter().map(|root| {
            let epoch = root.reader().epoch()?;
            Ok(json!({
                "name": root.name(),
                "address": root.address(),
                "partitions": root.reader().partitions(),
                "epoch": epoch.map(|epoch| epoch.0),
            }))
        });
        list.collect::<Result<Vec<Value>, Problem>>()
    };
    let list = state.work.run(list).await?;
    Ok(json_response(Value::from(list).to_string(), None))
}

/// Lists the tables of a root.
pub async fn tables(asked: Asked) -> Result<Response, Problem> {
    let root = asked.root()?;
    let list = move |_permit| {
        let epoch = root.reader().epoch()?;
        let tables = root.reader().tables()?;
        let several = |table: &TableDescription| {
            let mut same = tables
                .iter()
                .filter(|other| other.operator == table.operator);
            same.nth(1).is_some()
        };
        let list: Vec<Value> = tables
            .iter()
            .map(|table| described(table, several(table)))
            .collect();
        Ok((epoch, list))
    };
    let (epoch, list) = asked.state.work.run(list).await?;
    let epoch = epoch.map(|epoch| epoch.0);
    Ok(json_response(Value::from(list).to_string(), epoch))
}

/// Lists the hosts of a root that answer.
pub async fn hosts(asked: Asked) -> Result<Response, Problem> {
    let root = asked.root()?;
    let list = move |_permit| Ok((root.reader().epoch()?, root.reader().metrics()?));
    let (epoch, hosts) = asked.state.watching.run(list).await?;
    figures_response(&hosts, epoch)
}

/// Lists the partitions of a root, with what is wrong with them.
pub async fn partitions(asked: Asked) -> Result<Response, Problem> {
    let root = asked.root()?;
    let list = move |_permit| Ok(root.reader().report()?);
    let report = asked.state.watching.run(list).await?;
    figures_response(&report.partitions, report.epoch)
}

fn figures_response(figures: &impl Serialize, epoch: Option<Epoch>) -> Result<Response, Problem> {
    let text = serde_json::to_string(figures).map_err(|error| {
        let text = format!("the figures of hosts cannot be sent: {error}");
        Error::new(ErrorKind::Serialization, text)
    })?;
    Ok(json_response(text, epoch.map(|epoch| epoch.0)))
}

fn described(table: &TableDescription, several: bool) -> Value {
    let name = if several {
        format!("{}.{}", table.operator, table.store)
    } else {
        table.operator.clone()
    };
    let columns = table
        .schema
        .fields()
        .iter()
        .map(|field| json!({"name": field.name(), "type": field.data_type().to_string()}));
    json!({
        "name": name,
        "operator": table.operator,
        "operator_kind": table.operator_kind,
        "store": table.store,
        "kind": table.kind,
        "key": table.key,
        "columns": columns.collect::<Vec<Value>>(),
    })
}
