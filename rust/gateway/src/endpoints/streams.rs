//! Rows of a range, versions and changes, sent as they are read.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::protocol::{Epoch, PartitionId};
use holdfast_host::reader::{EpochSpan, RowStream};
use holdfast_host::tables::{ReadCall, ReadRows};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Sender};

use super::asked::{Asked, rows_response};
use crate::problem::Problem;
use crate::request::{
    AS_OF, COLUMNS, END, FROM_EPOCH, KeyColumns, LIMIT, PARTITION, PREFIX, Params, START,
    TIME_FROM, TIME_TO, TO_EPOCH,
};
use crate::response::RowWriter;
use crate::state::{RootTable, WorkPermit};

/// How many parts wait to be sent.
const WAITING: usize = 2;

/// The keys that a read is limited to, and how.
type Bounds = (ReadRows, RecordBatch);

/// Sends the rows of a range.
pub async fn scan(asked: Asked) -> std::result::Result<Response, Problem> {
    let [prefix, start, end] = [&PREFIX, &START, &END].map(|parameter| asked.params.all(parameter));
    rows(asked, move |key| scan_bounds(key, prefix, start, end)).await
}

/// Sends the versions of a key.
pub async fn versions(asked: Asked) -> std::result::Result<Response, Problem> {
    let key = asked.path.key.clone();
    rows(asked, move |columns| {
        Ok((ReadRows::VersionsOfKey, columns.parse_text(&key)?))
    })
    .await
}

/// Sends the changes of a table, from the log.
pub async fn changes(asked: Asked) -> std::result::Result<Response, Problem> {
    let epoch = |parameter| -> std::result::Result<Option<Epoch>, Problem> {
        let count = asked.params.count(parameter)?;
        Ok(count.and_then(|count| i64::try_from(count).ok()).map(Epoch))
    };
    let span = EpochSpan {
        from: epoch(&FROM_EPOCH)?,
        to: epoch(&TO_EPOCH)?,
    };
    let partition = asked.params.count(&PARTITION)?;
    // No state has so many partitions: the reader says how many there are.
    let partition = partition.map(|number| PartitionId(i32::try_from(number).unwrap_or(i32::MAX)));
    send(asked, move |table| {
        let begun = table.reader.changes(table.named(), span, partition);
        begun.map_err(|error| {
            if error.kind() == ErrorKind::ChangesLost
                && let Ok(Some(oldest)) = table.reader.oldest_changes(table.named())
            {
                return Problem::from(error).with_oldest_epoch(oldest.0);
            }
            error.into()
        })
    })
    .await
}

fn scan_bounds(
    key: &KeyColumns,
    prefix: Option<Vec<String>>,
    start: Option<Vec<String>>,
    end: Option<Vec<String>>,
) -> std::result::Result<Bounds, Problem> {
    let parse = |bounds: &[&[String]]| key.parse_bounds(bounds);
    Ok(match (prefix, start, end) {
        (None, None, None) => {
            let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
            (ReadRows::All, none)
        }
        (Some(prefix), None, None) => (ReadRows::Prefix, parse(&[&prefix])?),
        (None, Some(start), None) => (ReadRows::From, parse(&[&start])?),
        (None, None, Some(end)) => (ReadRows::To, parse(&[&end])?),
        (None, Some(start), Some(end)) => (ReadRows::Between, parse(&[&start, &end])?),
        (Some(_), _, _) => {
            return Err(Problem::value("give prefix, or start and end, not both"));
        }
    })
}

fn call(params: &Params) -> std::result::Result<ReadCall, Problem> {
    Ok(ReadCall {
        rows: ReadRows::All,
        as_of: params.moment(&AS_OF)?,
        from: params.moment(&TIME_FROM)?,
        to: params.moment(&TIME_TO)?,
        columns: params.all(&COLUMNS),
        limit: params.count(&LIMIT)?,
    })
}

/// Sends rows of the state.
async fn rows(
    asked: Asked,
    bounds: impl FnOnce(&KeyColumns) -> std::result::Result<Bounds, Problem> + Send + 'static,
) -> std::result::Result<Response, Problem> {
    let from = asked.read_from()?;
    let call = call(&asked.params)?;
    send(asked, move |table| {
        let (rows, keys) = bounds(&KeyColumns::of_key(&table.description))?;
        let call = ReadCall { rows, ..call };
        Ok(table.reader.scan(table.named(), call, keys, None, from)?)
    })
    .await
}

/// Sends what a read of a table returns.
async fn send(
    asked: Asked,
    read: impl FnOnce(&RootTable) -> std::result::Result<RowStream, Problem> + Send + 'static,
) -> std::result::Result<Response, Problem> {
    let root = asked.root()?;
    let state = asked.state;
    let (format, limits) = (asked.format, state.limits);
    let begin = move |permit| {
        let mut rows = read(&root.table(&asked.path.table)?)?;
        // What is wrong with a read shows at its first batch, while the status can still say so.
        let first = rows.next().transpose()?;
        let state = rows.state();
        let writer = RowWriter::new(format, rows.schema())?;
        Ok((
            Scan {
                rows,
                first,
                writer,
                permit,
            },
            state,
        ))
    };
    let (scan, answer) = state.work.run(begin).await?;
    let (parts, sent) = mpsc::channel(WAITING);
    let client = Client {
        parts,
        patience: limits.timeout,
        end: Instant::now() + limits.scan,
    };
    tokio::task::spawn_blocking(move || scan.send_to(&client));
    let body = stream::unfold(Some(sent), |sent| async move {
        let mut sent = sent?;
        match sent.recv().await {
            Some(Some(part)) => Some((Ok(part), Some(sent))),
            Some(None) => None,
            // The connection breaks, and the client does not take a part for the whole.
            None => Some((Err(io::Error::other("the scan has failed")), None)),
        }
    });
    Ok(rows_response(Body::from_stream(body), format, answer))
}

/// A scan whose rows are being sent.
struct Scan {
    rows: RowStream,
    first: Option<RecordBatch>,
    writer: RowWriter,
    permit: WorkPermit,
}

/// Where rows are sent.
struct Client {
    /// Takes none after the last part.
    parts: Sender<Option<Bytes>>,
    /// How long it may take to accept a part.
    patience: Duration,
    /// When the scan must have ended: it keeps rows on the host's disk.
    end: Instant,
}

impl Scan {
    /// Sends all rows, then the end.
    fn send_to(self, client: &Client) {
        let Self {
            rows,
            first,
            mut writer,
            permit,
        } = self;
        let send_all = || {
            for batch in first.map(Ok).into_iter().chain(rows) {
                writer.write(&batch?, &mut |part| client.send(Some(part.into())))?;
            }
            Ok(())
        };
        let sent: Result<()> = send_all();
        let sent = sent.and_then(|()| {
            client.send(Some(writer.end()?.into()))?;
            client.send(None)
        });
        if let Err(error) = sent {
            log::info!("a scan ended before its last row: {error}");
        }
        drop(permit);
    }
}

impl Client {
    fn send(&self, part: Option<Bytes>) -> Result<()> {
        let gone = |why: &str| Error::new(ErrorKind::InvalidState, format!("the client {why}"));
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(gone("reads the scan too slowly: ask for a smaller range"));
        }
        let patience = self.patience.min(left);
        Handle::current()
            .block_on(self.parts.send_timeout(part, patience))
            .map_err(|_| gone("has left, or accepts no more rows"))
    }
}
