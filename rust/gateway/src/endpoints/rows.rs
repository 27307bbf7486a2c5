//! Rows by their keys.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use holdfast_core::{Error, ErrorKind};
use holdfast_host::tables::{FOUND, ReadCall, ReadRows};
use serde_json::Value;

use super::asked::{Asked, rows_response};
use crate::problem::Problem;
use crate::request::{AS_OF, COLUMNS, KeyColumns, Params};
use crate::response::{Format, RowWriter, json_rows};
use crate::state::ReadKind;

/// Returns the row of the key in the path.
pub async fn row(asked: Asked) -> Result<Response, Problem> {
    let (root, from, call) = (asked.root()?, asked.read_from()?, call(&asked.params)?);
    let state = asked.state;
    let table = match root.known_table(&asked.path.table) {
        Some(table) => table,
        None => {
            let (root, name) = (Arc::clone(&root), asked.path.table.clone());
            state.work.run(move |_permit| root.table(&name)).await?
        }
    };
    let format = asked.format;
    let key = KeyColumns::of_row(&table.description).parse_text(&asked.path.key)?;
    let (operator, store) = table.named();
    let places = table.reader.places(table.named(), &key)?;
    let kind = ReadKind {
        operator: operator.to_owned(),
        store: store.to_owned(),
        partition: places.and_then(|places| places.first().copied()),
        call,
        from,
        columns: key.schema().fields().clone(),
    };
    let found = root.key_reads().read(kind, key).await?;
    let epoch = found.state.epoch.0;
    let (rows, is_found) = split_found(&found.row)?;
    if !is_found.value(0) {
        let text = format!("the table has no row of this key in epoch {epoch}");
        return Err(Problem::absent(text).in_epoch(epoch));
    }
    let body = match format {
        Format::Arrow => arrow(std::slice::from_ref(&rows), rows.schema_ref())?,
        Format::Json | Format::JsonLines => {
            let mut text = json_rows(&rows)?.join("\n").into_bytes();
            text.push(b'\n');
            text
        }
    };
    Ok(rows_response(Body::from(body), format, found.state))
}

/// Returns a row for each key in the body.
pub async fn rows(asked: Asked, body: Bytes) -> Result<Response, Problem> {
    let most = asked.state.limits.keys;
    let keys: Vec<Value> = serde_json::from_slice(&body).map_err(|error| {
        Problem::value(format!("the body must be a JSON array of keys: {error}"))
    })?;
    if keys.len() > most {
        let text = format!(
            "{} keys are more than {most}: send several requests",
            keys.len()
        );
        return Err(Problem::http(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let (root, from, call) = (asked.root()?, asked.read_from()?, call(&asked.params)?);
    let state = asked.state;
    let read = move |_permit| {
        let table = root.table(&asked.path.table)?;
        let keys = KeyColumns::of_row(&table.description).parse_json(keys)?;
        Ok(table.reader.get(table.named(), &call, &keys, from)?)
    };
    let (found, format) = (state.work.run(read).await?, asked.format);
    let body = match format {
        Format::Arrow => arrow(&found.batches, &found.schema)?,
        Format::Json | Format::JsonLines => json(&found.batches, format)?,
    };
    Ok(rows_response(Body::from(body), format, found.state))
}

fn call(params: &Params) -> Result<ReadCall, Problem> {
    Ok(ReadCall {
        rows: ReadRows::Get,
        as_of: params.moment(&AS_OF)?,
        columns: params.all(&COLUMNS),
        ..ReadCall::default()
    })
}

/// Splits off the column that says which keys were found.
fn split_found(found: &RecordBatch) -> Result<(RecordBatch, BooleanArray), Problem> {
    let missing = || Error::new(ErrorKind::InvalidState, "a read does not say what it found");
    let last = found.num_columns().checked_sub(1).ok_or_else(missing)?;
    let is_found = found.column(last).as_boolean_opt();
    let is_found = is_found.filter(|_| found.schema_ref().field(last).name() == FOUND);
    let is_found = is_found.ok_or_else(missing)?.clone();
    let rows: Vec<usize> = (0..last).collect();
    let rows = found.project(&rows).map_err(|error| {
        Error::new(
            ErrorKind::Serialization,
            format!("the rows cannot be sent: {error}"),
        )
    })?;
    Ok((rows, is_found))
}

/// Rows as JSON, null where there is none.
fn json(batches: &[RecordBatch], format: Format) -> Result<Vec<u8>, Problem> {
    let mut rows: Vec<String> = Vec::new();
    for found in batches {
        let (found, is_found) = split_found(found)?;
        let there = filter_record_batch(&found, &is_found).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("the rows cannot be sent: {error}"),
            )
        })?;
        let mut there = json_rows(&there)?.into_iter();
        rows.extend((0..is_found.len()).map(|row| {
            let row = is_found.value(row).then(|| there.next()).flatten();
            row.unwrap_or_else(|| "null".to_owned())
        }));
    }
    Ok(match format {
        Format::JsonLines => rows.into_iter().map(|row| row + "\n").collect::<String>(),
        _ => format!("[{}]\n", rows.join(",\n")),
    }
    .into_bytes())
}

fn arrow(batches: &[RecordBatch], schema: &SchemaRef) -> Result<Vec<u8>, Problem> {
    let mut writer = RowWriter::new(Format::Arrow, schema)?;
    let mut bytes = Vec::new();
    for rows in batches {
        writer.write(rows, &mut |part| {
            bytes.extend(part);
            Ok(())
        })?;
    }
    bytes.extend(writer.end()?);
    Ok(bytes)
}
