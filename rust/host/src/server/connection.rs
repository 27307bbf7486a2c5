//! The host's end of a connection: greeting, one session, an answer or an error.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, panic_message};

use crate::host::Host;
use crate::net::call::Message;
use crate::net::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::net::message::{self, BatchReceiver, BatchSender, Kind, SendError};
use crate::net::socket::Stream;
use crate::operator::Worker;
use crate::session::{Opening, Session};

const BUFFER_BYTES: usize = 64 << 10;
/// A peer that connects must say who it is within this time.
const GREETING: Duration = Duration::from_secs(10);
/// A worker that is still sending when its session has failed gets this long to read why.
const DRAIN: Duration = Duration::from_secs(30);

/// Why a session ended early.
#[derive(Debug)]
enum Ended {
    /// The worker is gone: nobody to tell.
    Gone(io::Error),
    /// It failed: the worker is told.
    Failed(Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData {
            return Self::Failed(Error::new(ErrorKind::InvalidState, error.to_string()));
        }
        Self::Gone(error)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Serves one connection to its end. Never panics: a panic of the session becomes its error.
pub fn serve(stream: Stream, host: &Arc<Host>, token: &str) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        Connection::new(stream.try_clone()?)?.run(host, token)
    }));
    let error = match result {
        Ok(Ok(())) => return,
        Ok(Err(Ended::Gone(error))) => {
            log::debug!("a worker is gone, its session leaves nothing: {error}");
            return;
        }
        Ok(Err(Ended::Failed(error))) => error,
        Err(panic) => Error::new(
            ErrorKind::InvalidState,
            format!(
                "this is a bug in Holdfast's state host, please report it; a retry of the task \
                 may pass: {}",
                panic_message(&*panic)
            ),
        ),
    };
    log::warn!("a session failed: {error}");
    if let Err(error) = answer(&stream, &error) {
        log::debug!("a worker has not heard why its session failed: {error}");
    }
}

/// Tells the worker, which may still be sending: hanging up on unread data could lose the answer.
fn answer(mut stream: &Stream, error: &Error) -> io::Result<()> {
    stream.set_write_timeout(Some(DRAIN))?;
    message::send_error(&mut stream, Kind::Error, error)?;
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (started, mut sink) = (Instant::now(), vec![0; BUFFER_BYTES]);
    while started.elapsed() < DRAIN {
        match stream.read(&mut sink) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Connection {
    reader: BufReader<Stream>,
    writer: BufWriter<Stream>,
}

impl Connection {
    fn new(stream: Stream) -> Result<Self, Ended> {
        Ok(Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream.try_clone()?),
            writer: BufWriter::with_capacity(BUFFER_BYTES, stream),
        })
    }

    fn run(&mut self, host: &Arc<Host>, token: &str) -> Result<(), Ended> {
        self.greet(token)?;
        let mut session = self.open(host)?;
        let mut batches = BatchReceiver::default();
        loop {
            let (kind, payload) = self.receive()?;
            match kind {
                Kind::Columns => {
                    session.columns(&*message::decode_columns(payload)?)?;
                    continue;
                }
                Kind::Batch | Kind::End => {}
                _ => return Err(unexpected(kind, "Columns, Batch or End")),
            }
            for batch in batches
                .receive(payload)
                .map_err(|error| session.told(error))?
            {
                session.push(batch)?;
            }
            if kind == Kind::End {
                break;
            }
        }
        let schema = batches.schema();
        let mut worker = Serving {
            connection: self,
            output: BatchSender::default(),
            gone: None,
        };
        let staged = session.finish(schema.as_deref(), &mut worker);
        let Serving {
            connection, gone, ..
        } = worker;
        match (gone, staged) {
            (Some(error), _) => Err(Ended::Gone(error)),
            (None, staged) => Ok(connection.send_json(Kind::Staged, &staged?)?),
        }
    }

    /// The worker comes back to this connection if it is sent elsewhere in vain.
    fn open(&mut self, host: &Arc<Host>) -> Result<Session, Ended> {
        loop {
            let (kind, payload) = self.receive()?;
            if kind != Kind::Open {
                return Err(unexpected(kind, "Open"));
            }
            match Session::open(host, &payload)? {
                Opening::Here(session, opened) => {
                    self.send_json(Kind::Opened, &opened)?;
                    return Ok(*session);
                }
                Opening::Elsewhere(owner) => self.send_json(Kind::Moved, &owner)?,
            }
        }
    }

    /// A peer that does not know the token learns nothing and may send next to nothing.
    fn greet(&mut self, token: &str) -> Result<(), Ended> {
        self.reader.get_ref().set_read_timeout(Some(GREETING))?;
        let shown = match message::receive(&mut self.reader, MAX_GREETING)? {
            Some((Kind::Hello, shown)) => shown,
            Some((kind, _)) => return Err(unexpected(kind, "Hello")),
            None => return Err(Ended::Gone(io::ErrorKind::UnexpectedEof.into())),
        };
        if !same(&shown, token.as_bytes()) {
            let text = "the state host has another token: this worker belongs to another executor";
            return Err(Error::new(ErrorKind::InvalidState, text).into());
        }
        self.reader.get_ref().set_read_timeout(None)?;
        Ok(message::send(&mut self.writer, Kind::Welcome, &[])?)
    }

    fn receive(&mut self) -> Result<(Kind, Vec<u8>), Ended> {
        message::receive(&mut self.reader, MAX_PAYLOAD)?
            .ok_or_else(|| Ended::Gone(io::ErrorKind::UnexpectedEof.into()))
    }

    fn send_json(&mut self, kind: Kind, message: &impl serde::Serialize) -> Result<(), Ended> {
        let json = serde_json::to_vec(message).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("an answer cannot be written as JSON: {error}"),
            )
        })?;
        Ok(message::send(&mut self.writer, kind, &json)?)
    }
}

/// A worker whose input has ended.
struct Serving<'a> {
    connection: &'a mut Connection,
    output: BatchSender,
    /// Why it is not there any more.
    gone: Option<io::Error>,
}

impl Serving<'_> {
    fn hung_up(&mut self, error: io::Error) -> Error {
        let told = Error::new(
            ErrorKind::InvalidState,
            format!("the worker is gone: {error}"),
        );
        self.gone = Some(error);
        told
    }

    fn sent(&mut self, sent: Result<(), SendError>) -> holdfast_core::Result<()> {
        sent.map_err(|error| match error {
            SendError::Batch(error) => error,
            SendError::Stream(error) => self.hung_up(error),
        })
    }
}

impl Worker for Serving<'_> {
    fn emit(&mut self, batch: RecordBatch) -> holdfast_core::Result<()> {
        let writer = &mut self.connection.writer;
        let sent = self
            .output
            .send(writer, Kind::Output, &batch)
            .and_then(|()| writer.flush().map_err(SendError::Stream));
        self.sent(sent)
    }

    fn call(&mut self) -> holdfast_core::Result<Message> {
        match self.connection.receive() {
            Ok((Kind::Call, payload)) => Message::decode(payload),
            Ok((kind, _)) => match unexpected(kind, "Call") {
                Ended::Failed(error) => Err(error),
                Ended::Gone(error) => Err(self.hung_up(error)),
            },
            Err(Ended::Failed(error)) => Err(error),
            Err(Ended::Gone(error)) => Err(self.hung_up(error)),
        }
    }

    fn answer(&mut self, answer: &Message) -> holdfast_core::Result<()> {
        let sent = answer.send(&mut self.connection.writer, Kind::Answer);
        self.sent(sent)
    }

    fn refuse(&mut self, error: &Error) -> holdfast_core::Result<()> {
        message::send_error(&mut self.connection.writer, Kind::Refused, error)
            .map_err(|error| self.hung_up(error))
    }

    fn check_alive(&mut self) -> holdfast_core::Result<()> {
        still_there(&mut self.connection.reader).map_err(|error| {
            Error::new(
                ErrorKind::InvalidState,
                format!("the worker is gone: {error}"),
            )
        })
    }
}

fn unexpected(kind: Kind, wanted: &str) -> Ended {
    let text = format!(
        "the worker sent {kind:?} where {wanted} belongs: worker and host are of different \
         versions"
    );
    Ended::Failed(Error::new(ErrorKind::InvalidState, text))
}

/// Whether the worker still waits for its answer: it has nothing more to say, so anything but
/// silence is its end.
fn still_there(reader: &mut BufReader<Stream>) -> io::Result<()> {
    reader.get_ref().set_nonblocking(true)?;
    let read = reader.read(&mut [0]);
    reader.get_ref().set_nonblocking(false)?;
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

/// Compares in a time that says nothing about where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
