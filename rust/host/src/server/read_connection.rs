//! The host's end of a reader's connection.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind};

use crate::host::{Host, OpenView};
use crate::memory::budget::Share;
use crate::net::batch_stream::SendError;
use crate::net::call::CallMessage;
use crate::net::message::{self, MessageKind};
use crate::net::read::{self, READ, ReadAnswer, ReadEpoch, ReadRequest, ReadTarget};
use crate::net::request::USUAL_REQUEST;
use crate::net::socket::Stream;
use crate::net::stored_read::{self, StoredAnswer, StoredRead};
use crate::server::priority;
use crate::tables::{FEW_KEYS, FoundRow, ReadCall, ReadRows, StateTable, StoredKeys};

/// The most views that a connection may pin.
const MAX_VIEWS: usize = 4096;

/// A reader's connection. Its views end with it.
pub struct ReadConnection<'a, W: io::Write> {
    host: &'a Arc<Host>,
    /// The id of the root that the reader may read.
    root: &'a str,
    writer: &'a mut W,
    views: HashMap<u64, OpenView>,
    last_view: u64,
}

impl<'a, W: io::Write + Send> ReadConnection<'a, W> {
    /// A connection without views.
    pub fn new(host: &'a Arc<Host>, root: &'a str, writer: &'a mut W) -> Self {
        Self {
            host,
            root,
            writer,
            views: HashMap::new(),
            last_view: 0,
        }
    }

    /// Answers one request. An error of the request is sent to the reader.
    ///
    /// # Errors
    /// The connection's.
    pub fn answer(&mut self, payload: Vec<u8>) -> io::Result<()> {
        let answered = self.try_answer(payload);
        self.or_refuse(answered)
    }

    /// Answers a read of keys with their rows as they are stored. An error of the request is sent
    /// to the reader.
    ///
    /// # Errors
    /// The connection's.
    pub fn answer_stored(&mut self, payload: &[u8]) -> io::Result<()> {
        // Held until the reader has accepted the answer.
        let mut memory = self.host.memory().reads().share();
        let answered = match self.read_stored(payload, &mut memory) {
            Ok(answer) => message::send(self.writer, MessageKind::Answer, &answer)
                .map_err(ReadError::Connection),
            Err(error) => Err(error.into()),
        };
        self.or_refuse(answered)
    }

    fn or_refuse(&mut self, answered: std::result::Result<(), ReadError>) -> io::Result<()> {
        match answered {
            Ok(()) => Ok(()),
            Err(ReadError::Connection(error)) => Err(error),
            Err(ReadError::Request(error)) => {
                log::debug!("a read failed: {error}");
                message::send_error(self.writer, MessageKind::Refused, &error)
            }
        }
    }

    fn read_stored(&self, payload: &[u8], memory: &mut Share) -> holdfast_core::Result<Vec<u8>> {
        if payload.len() > USUAL_REQUEST {
            let text = format!(
                "a read of keys has {} bytes, and may have at most {USUAL_REQUEST}",
                payload.len(),
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        let read: StoredRead<StoredKeys> = stored_read::decode(payload)?;
        let Some(mut open) = self.view(&read.target)? else {
            return stored_read::encode(&StoredAnswer::<FoundRow>::Absent);
        };
        let at = epoch_of(&open);
        let started = Instant::now();
        let table = table_of(&open.tables, &read.store)?;
        let database = (&*open.view.db, &mut open.view.transaction);
        let found = table.read_stored(database, &read.keys, memory)?;
        let rows = found.as_ref().map_or(0, Vec::len);
        self.host
            .counters()
            .add_read(started.elapsed(), rows as u64);
        stored_read::encode(&match found {
            Some(rows) => StoredAnswer::Rows { at, rows },
            None => StoredAnswer::TooLarge { at },
        })
    }

    /// Sends bytes back.
    ///
    /// # Errors
    /// The connection's.
    pub fn echo(&mut self, bytes: &[u8]) -> io::Result<()> {
        message::send(self.writer, MessageKind::Answer, bytes)
    }

    fn try_answer(&mut self, payload: Vec<u8>) -> std::result::Result<(), ReadError> {
        let message = CallMessage::decode(payload)?;
        match read::parse::<ReadRequest<ReadCall>>(message.attribute(READ))? {
            ReadRequest::Pin { target } => {
                if self.views.len() >= MAX_VIEWS {
                    let text = format!("a reader holds {MAX_VIEWS} views: close its open scans");
                    return Err(Error::new(ErrorKind::InvalidState, text).into());
                }
                let Some(open) = self.view(&target)? else {
                    return self.send(&ReadAnswer::Absent, None);
                };
                self.last_view += 1;
                let at = epoch_of(&open);
                self.views.insert(self.last_view, open);
                let view = self.last_view;
                self.send(&ReadAnswer::Pinned { view, at }, None)
            }
            ReadRequest::Metrics { root } => {
                self.check_root(&root)?;
                let metrics = self.host.metrics(&root);
                self.send(&ReadAnswer::Metrics { metrics }, None)
            }
            ReadRequest::Unpin { view } => {
                self.views.remove(&view);
                Ok(())
            }
            ReadRequest::Rows { view, store, call } => {
                let mut open = self.views.remove(&view).ok_or_else(|| {
                    let text = format!("there is no view {view}: connect again");
                    Error::new(ErrorKind::InvalidState, text)
                })?;
                let result = self.send_rows(&mut open, &store, &call, &message.batch);
                self.views.insert(view, open);
                result
            }
            ReadRequest::Newest {
                target,
                store,
                call,
            } => match self.view(&target)? {
                Some(mut open) => self.send_rows(&mut open, &store, &call, &message.batch),
                None => self.send(&ReadAnswer::Absent, None),
            },
        }
    }

    /// Returns a view of a partition; none if this host cannot answer.
    ///
    /// For example, the partition's database is not open, a newer run has begun, or the epoch
    /// cannot be applied. The reader then makes a copy, and gets the state or the error from it.
    ///
    /// # Errors
    /// `InvalidValue` for a partition of a root that the reader may not read.
    fn view(&self, target: &ReadTarget) -> holdfast_core::Result<Option<OpenView>> {
        self.check_root(&target.root)?;
        let view = self.host.read_view(target);
        Ok(view.unwrap_or_else(|error| {
            let ReadTarget {
                operator,
                partition,
                ..
            } = target;
            log::debug!("operator {operator}, partition {partition}: not read here: {error}");
            None
        }))
    }

    /// Checks that a request is for the root that the reader may read.
    fn check_root(&self, root: &str) -> holdfast_core::Result<()> {
        if root == self.root {
            return Ok(());
        }
        let text = format!(
            "this connection is for the root {}, and not for {root}",
            self.root
        );
        Err(Error::new(ErrorKind::InvalidValue, text))
    }

    /// Sends the rows of a read. A long read has a lower priority than sessions.
    fn send_rows(
        &mut self,
        open: &mut OpenView,
        store: &str,
        call: &ReadCall,
        keys: &RecordBatch,
    ) -> std::result::Result<(), ReadError> {
        if is_long(call, keys) {
            priority::run_low(|| self.find_and_send(open, store, call, keys))
        } else {
            self.find_and_send(open, store, call, keys)
        }
    }

    /// Sends the rows of a read. A batch is sent only after the next one is known, so that the last
    /// one can be marked as the last.
    fn find_and_send(
        &mut self,
        open: &mut OpenView,
        store: &str,
        call: &ReadCall,
        keys: &RecordBatch,
    ) -> std::result::Result<(), ReadError> {
        let at = epoch_of(open);
        let tables = Arc::clone(&open.tables);
        let table = table_of(&tables, store)?;
        let (started, mut rows) = (Instant::now(), 0);
        let (mut waiting, mut failed): (Option<RecordBatch>, Option<io::Error>) = (None, None);
        let view = &mut open.view;
        let mut memory = self.host.memory().reads().share();
        let database = (&*view.db, &mut view.transaction);
        let read = table.read(database, call, keys, &mut memory, &mut |batch| {
            rows += batch.num_rows() as u64;
            let Some(before) = waiting.replace(batch) else {
                return Ok(());
            };
            match self.send(&ReadAnswer::Rows { more: true, at }, Some(before)) {
                Ok(()) => Ok(()),
                Err(ReadError::Request(error)) => Err(error),
                Err(ReadError::Connection(error)) => {
                    let gone = format!("the reader is gone: {error}");
                    failed = Some(error);
                    Err(Error::new(ErrorKind::InvalidState, gone))
                }
            }
        });
        if let Some(error) = failed {
            return Err(ReadError::Connection(error));
        }
        read?;
        self.host.counters().add_read(started.elapsed(), rows);
        let last = match waiting {
            Some(batch) => batch,
            None => RecordBatch::new_empty(table.schema_of(call)?),
        };
        self.send(&ReadAnswer::Rows { more: false, at }, Some(last))
    }

    fn send(
        &mut self,
        answer: &ReadAnswer,
        rows: Option<RecordBatch>,
    ) -> std::result::Result<(), ReadError> {
        let message = rows.map_or_else(CallMessage::empty, CallMessage::of);
        let message = message.with(READ, read::json(answer)?);
        message
            .send(self.writer, MessageKind::Answer)
            .map_err(|error| match error {
                SendError::Batch(error) => ReadError::Request(error),
                SendError::Stream(error) => ReadError::Connection(error),
            })
    }
}

fn table_of<'a>(tables: &'a [StateTable], store: &str) -> holdfast_core::Result<&'a StateTable> {
    let table = tables.iter().find(|table| table.store() == store);
    table.ok_or_else(|| {
        let text = format!("the operator has no table {store:?}");
        Error::new(ErrorKind::InvalidValue, text)
    })
}

/// Whether a read may occupy a core for long.
fn is_long(call: &ReadCall, keys: &RecordBatch) -> bool {
    call.rows != ReadRows::Get || keys.num_rows() > FEW_KEYS
}

fn epoch_of(open: &OpenView) -> ReadEpoch {
    ReadEpoch {
        epoch: open.view.epoch,
        chain: open.view.chain,
    }
}

/// Why a request was not answered.
enum ReadError {
    /// The request failed.
    Request(Error),
    /// The connection failed.
    Connection(io::Error),
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

/// How long a reader may take to accept rows, or to send its next request. Then the host
/// disconnects it, because its views prevent the deletion of old rows on the disk.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Limits how long the host waits for a reader.
///
/// # Errors
/// The operating system's.
pub fn limit_waits(stream: &Stream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}
