//! The worker's end of a session: a blocking client without threads and without a runtime, so that it works in a
//! process that Spark's daemon has forked and will end with `_exit`.

use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::message::Message;
use crate::operator::process::OutputDigest;
use crate::wire::{self, BatchReceiver, BatchSender, Kind, SendError};

/// Both buffers: large columns pass them by, small ones gather.
const BUFFER_BYTES: usize = 64 << 10;

/// One connection to a state host, which is one session.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let batch = arrow_array::RecordBatch::new_empty(std::sync::Arc::new(arrow_schema::Schema::empty()));
/// use holdfast_host::client::Client;
///
/// let mut client = Client::connect("/tmp/host/socket".as_ref(), "token", std::time::Duration::from_secs(5))?;
/// client.open(r#"{"root": "…"}"#)?;
/// client.push(&batch)?;
/// for output in client.finish()? {
///     println!("{} rows", output?.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: BufWriter<UnixStream>,
    input: BatchSender,
    socket: PathBuf,
    opened: bool,
    /// The host knows the input's columns.
    told: bool,
}

impl Client {
    /// Connects and shows the token. `timeout` bounds the greeting, not the session.
    ///
    /// Errors are plain I/O errors, since what to do about them is the caller's: `NotFound` and `ConnectionRefused`
    /// mean that no host listens (start one), `PermissionDenied` that the token is wrong.
    pub fn connect(socket: &Path, token: &str, timeout: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        let mut client = Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream.try_clone()?),
            writer: BufWriter::with_capacity(BUFFER_BYTES, stream),
            input: BatchSender::default(),
            socket: socket.to_owned(),
            opened: false,
            told: false,
        };
        wire::send(&mut client.writer, Kind::Hello, token.as_bytes())?;
        match wire::receive(&mut client.reader, MAX_GREETING)? {
            Some((Kind::Welcome, _)) => {}
            Some((Kind::Error, payload)) => {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, wire::decode_error(&payload).to_string()));
            }
            Some((kind, _)) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} answers a greeting with {kind:?}: not a state host of this version", socket.display()),
                ));
            }
            // A host that is about to end takes no new session: the same as none.
            None => {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("the state host at {} is ending", socket.display())));
            }
        }
        let stream = client.writer.get_ref();
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok(client)
    }

    /// Opens the session: the request and the answer are JSON (`crate::session::Request`, `crate::session::Opened`).
    pub fn open(&mut self, request: &str) -> Result<String> {
        if self.opened {
            return Err(Error::new(ErrorKind::InvalidState, "this connection's session is open already: one connection is one session"));
        }
        self.opened = true;
        if let Err(error) = wire::send(&mut self.writer, Kind::Open, request.as_bytes()) {
            return Err(self.broken(&error));
        }
        match self.receive()? {
            (Kind::Opened, payload) => text(payload),
            (kind, _) => Err(unexpected(kind, "an open")),
        }
    }

    /// Sends one batch of input. A session must be told its columns: push an empty batch if there may be no other, or to
    /// have the host bring the state up while the first rows are still to come.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = if batch.num_rows() == 0 && !self.told { wire::send_columns(&mut self.writer, &batch.schema()) } else { Ok(()) };
        self.told = true;
        // Flushed at once: the host encodes this batch while the worker waits for the next.
        let sent = columns.and_then(|()| self.input.send(&mut self.writer, Kind::Batch, batch));
        let sent = sent.and_then(|()| self.writer.flush().map_err(SendError::Stream));
        self.sent(sent)
    }

    /// Ends the input of an operator whose code runs here: from now on it calls.
    pub fn end_input(&mut self) -> Result<()> {
        let ended = self.input.finish(&mut self.writer, Kind::End);
        self.sent(ended)
    }

    /// Asks the session something, and waits for the answer.
    pub fn call(&mut self, call: &Message) -> Result<Message> {
        let sent = call.send(&mut self.writer, Kind::Call);
        self.sent(sent)?;
        match self.receive()? {
            (Kind::Answer, payload) => Message::decode(payload),
            (kind, _) => Err(unexpected(kind, "a call")),
        }
    }

    /// The last call: the code is done, and `output` is the digest of what it gave. Returns the host's words about the stage
    /// (JSON, `crate::request::Staged`).
    pub fn done(mut self, output: &OutputDigest) -> Result<String> {
        let call = Message::empty().with("method", "done").with("rows", output.rows()).with("digest", output.digest());
        let sent = call.send(&mut self.writer, Kind::Call);
        self.sent(sent)?;
        match self.receive()? {
            (Kind::Staged, payload) => text(payload),
            (kind, _) => Err(unexpected(kind, "the last call")),
        }
    }

    fn sent(&mut self, sent: std::result::Result<(), SendError>) -> Result<()> {
        sent.map_err(|error| match error {
            SendError::Batch(error) => error,
            SendError::Stream(error) => self.broken(&error),
        })
    }

    /// Ends the input. The iterator ends only after the host has acknowledged the stage: output that was taken in full
    /// is output whose state change is in the log.
    pub fn finish(mut self) -> Result<Output> {
        self.end_input()?;
        Ok(Output { client: self, batches: BatchReceiver::default(), ready: Vec::new().into_iter(), end: End::Open })
    }

    fn receive(&mut self) -> Result<(Kind, Vec<u8>)> {
        match wire::receive(&mut self.reader, MAX_PAYLOAD) {
            Ok(Some((Kind::Error, payload))) => Err(wire::decode_error(&payload)),
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(self.vanished("it closed the connection")),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Error::new(ErrorKind::InvalidState, error.to_string())),
            Err(error) => Err(self.vanished(&error.to_string())),
        }
    }

    /// The error behind a failed write: what the host said before it hung up, if it said something.
    fn broken(&mut self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::InvalidInput {
            return Error::new(ErrorKind::InvalidValue, error.to_string());
        }
        while let Ok(Some((kind, payload))) = wire::receive(&mut self.reader, MAX_PAYLOAD) {
            if kind == Kind::Error {
                return wire::decode_error(&payload);
            }
        }
        self.vanished(&error.to_string())
    }

    fn vanished(&self, how: &str) -> Error {
        Error::new(
            ErrorKind::InvalidState,
            format!(
                "the state host at {} is gone ({how}); nothing is lost: Spark retries the task, and the retry starts a \
                 new host (in local mode retries need a master like local[2,4])",
                self.socket.display()
            ),
        )
    }
}

fn unexpected(kind: Kind, after: &str) -> Error {
    Error::new(ErrorKind::InvalidState, format!("the state host answers {after} with {kind:?}: worker and host are of different versions"))
}

fn text(payload: Vec<u8>) -> Result<String> {
    String::from_utf8(payload).map_err(|_| Error::new(ErrorKind::Serialization, "the state host's answer is not UTF-8"))
}

/// How far an output has been read.
enum End {
    Open,
    Staged(String),
    Failed,
}

/// The output batches of a session, in order. After the last one the stage has been acknowledged.
pub struct Output {
    client: Client,
    batches: BatchReceiver,
    ready: std::vec::IntoIter<RecordBatch>,
    end: End,
}

impl Output {
    /// The host's words about the stage (JSON, `crate::session::Staged`), once the iterator has ended.
    pub fn staged(&self) -> Option<&str> {
        match &self.end {
            End::Staged(json) => Some(json),
            End::Open | End::Failed => None,
        }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Ok(Some(batch));
            }
            match self.client.receive()? {
                (Kind::Output, payload) => self.ready = self.batches.receive(payload)?.into_iter(),
                (Kind::Staged, payload) => {
                    self.end = End::Staged(text(payload)?);
                    return Ok(None);
                }
                (kind, _) => return Err(unexpected(kind, "the end of the input")),
            }
        }
    }
}

impl Iterator for Output {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if !matches!(self.end, End::Open) {
            return None;
        }
        let next = self.advance();
        if next.is_err() {
            self.end = End::Failed;
        }
        next.transpose()
    }
}

impl Drop for Client {
    /// An unsent rest in the buffer is of no use to anyone: the host drops the session when the connection ends.
    fn drop(&mut self) {
        if let Err(error) = self.writer.flush() {
            log::debug!("closing the connection to {}: {error}", self.socket.display());
        }
    }
}
