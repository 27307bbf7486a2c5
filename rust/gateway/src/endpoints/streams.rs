//! Rows of a range, versions and changes, sent as they are read.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::protocol::{Epoch, PartitionId, RunNumber};
use holdfast_host::reader::{EpochSpan, RowStream, StateReader};
use holdfast_host::tables::{ReadCall, ReadRows};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Sender};

use super::asked::{Asked, rows_response};
use crate::problem::{self, Problem};
use crate::request::{
    AS_OF, COLUMNS, END, FROM_EPOCH, KeyColumns, LIMIT, PARTITION, PREFIX, Params, REWIND, START,
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
    let rewind = asked.params.count(&REWIND)?;
    let partition = asked.params.count(&PARTITION)?;
    // No state has so many partitions: the reader says how many there are.
    let partition = partition.map(|number| PartitionId(i32::try_from(number).unwrap_or(i32::MAX)));
    send(asked, move |table| {
        let begun = begin_changes(table, span, partition);
        // Checked after the newest epoch was read: a rewind puts its mark before it changes Spark's
        // log. So if the log was read after a rewind's change, the mark is found here. The client
        // has to know of the rewind before any other error.
        if let (Some(rewind), Some(before)) = (rewind, span.from.and_then(Epoch::previous)) {
            check_rewind(&table.reader, before, RunNumber(rewind))?;
        }
        begun
    })
    .await
}

fn begin_changes(
    table: &RootTable,
    span: EpochSpan,
    partition: Option<PartitionId>,
) -> std::result::Result<RowStream, Problem> {
    let span = EpochSpan {
        to: Some(match span.to {
            Some(to) => to,
            None => table.reader.final_epoch()?,
        }),
        ..span
    };
    let begun = table.reader.changes(table.named(), span, partition);
    begun.map_err(|error| {
        if error.kind() == ErrorKind::ChangesLost
            && let Ok(Some(oldest)) = table.reader.oldest_changes(table.named())
        {
            return Problem::from(error).with_oldest_epoch(oldest.0);
        }
        error.into()
    })
}

/// Checks that an epoch which a client has read was not taken back since.
fn check_rewind(reader: &StateReader, epoch: Epoch, known: RunNumber) -> Result<()> {
    if reader.newest_rewind_of(epoch)? == known {
        return Ok(());
    }
    let text = format!(
        "epoch {epoch} was taken back by a rewind since it was read: scan the table, and continue \
         with the epoch after the scan"
    );
    Err(Error::new(ErrorKind::Restore, text))
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
    let shows_rewind = asked.endpoint.shows_rewind();
    let begin = move |permit| {
        let table = root.table(&asked.path.table)?;
        let newest_rewind = || table.reader.newest_rewind_of(Epoch(i64::MAX));
        let before = shows_rewind.then(newest_rewind).transpose()?;
        let mut rows = read(&table)?;
        // Most errors of a read show at its first batch. The status can still report them.
        let first = rows.next().transpose()?;
        let state = rows.state();
        let rewind = match before {
            Some(before) => {
                let rewind = table.reader.newest_rewind_of(state.epoch)?;
                if rewind > before {
                    let text = format!("epoch {} was taken back meanwhile: ask again", state.epoch);
                    return Err(Error::new(ErrorKind::InvalidState, text).into());
                }
                Some(rewind)
            }
            None => None,
        };
        let writer = RowWriter::new(format, rows.schema())?;
        Ok((
            Scan {
                rows,
                first,
                writer,
                permit,
            },
            state,
            rewind,
        ))
    };
    let (scan, answer, rewind) = state.work.run(begin).await?;
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
            // The connection breaks, so the client does not mistake some rows for all of them.
            None => Some((Err(io::Error::other("the scan has failed")), None)),
        }
    });
    let mut response = rows_response(Body::from_stream(body), format, answer);
    if let Some(rewind) = rewind {
        let rewind = HeaderValue::from(rewind.0);
        response.headers_mut().insert(problem::REWIND, rewind);
    }
    Ok(response)
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
    /// The parts; `None` marks the end.
    parts: Sender<Option<Bytes>>,
    /// How long the client may take to accept a part.
    patience: Duration,
    /// When the scan must have ended, because its view prevents the deletion of old rows.
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
