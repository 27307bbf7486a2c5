//! The host's end of a connection: a greeting, then one session or the requests of one reader.

use std::cell::Cell;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, panic_message};

use crate::host::{Host, OpenCount, WritableRoot};
use crate::net::batch_stream::{self, BatchReceiver, BatchSender, SendError};
use crate::net::call::CallMessage;
use crate::net::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::net::message::{self, MessageKind};
use crate::net::read_until::ReadUntil;
use crate::net::socket::Stream;
use crate::operator::Worker;
use crate::server::read_connection::{ReadConnection, limit_waits};
use crate::server::read_requests::{self, ReceivedRequest};
use crate::server::right::Right;
use crate::server::session_error::SessionError;
use crate::session::{Routed, Session};

/// The buffers of a worker's connection, in each direction.
const BUFFER_BYTES: usize = 64 << 10;
/// The buffers of a reader's connection. A host may serve thousands of readers, most of which wait.
/// Longer messages bypass the buffers.
const READER_BUFFER_BYTES: usize = 4 << 10;
/// How long a new peer may take for its handshake, and then to send its token.
const GREETING: Duration = Duration::from_secs(10);
/// How long a worker that is still sending may take to read the error of its session.
const DRAIN: Duration = Duration::from_secs(30);
/// The same for a peer without a right, which has sent only its greeting.
const DRAIN_UNKNOWN: Duration = Duration::from_secs(1);

/// Serves one connection to its end. `admit` counts the peer once its right is known, or refuses
/// it. A panic of the session becomes its error.
pub fn serve(stream: Stream, host: &Arc<Host>, token: &str, admit: &Admit<'_>) {
    let counters = host.counters();
    let _connection = OpenCount::of(&counters.connections);
    let session = Cell::new(None);
    let drain = Cell::new(DRAIN_UNKNOWN);
    let is_reader = Cell::new(false);
    let admit = |right: &Right| {
        admit(right)?;
        drain.set(DRAIN);
        match right {
            Right::Read(_) => is_reader.set(true),
            Right::WriteAny | Right::Write(_) => {
                session.set(Some(OpenCount::of(&counters.sessions)));
            }
        }
        Ok(())
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        stream
            .handshake(Instant::now() + GREETING)
            .map_err(SessionError::WorkerGone)?;
        serve_peer(&stream, host, token, &admit)
    }));
    let error = match result {
        Ok(Ok(())) => return,
        Ok(Err(SessionError::WorkerGone(error))) => {
            log::debug!("a peer has disconnected: {error}");
            return;
        }
        Ok(Err(SessionError::Failed(error))) => error,
        Err(panic) => Error::new(
            ErrorKind::InvalidState,
            format!(
                "this is a bug in Holdfast's state host, please report it; a retry of the task \
                 may pass: {}",
                panic_message(&*panic)
            ),
        ),
    };
    let is_of_request = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::InvalidType
            | ErrorKind::StateMismatch
            | ErrorKind::UnsupportedOperation
    );
    if drain.get() != DRAIN {
        // Every process that can connect may cause this.
        log::debug!("a peer is refused: {error}");
    } else if is_reader.get() && is_of_request {
        // The reader gets the error; nothing is wrong with the host.
        log::info!("a reader's request failed: {error}");
    } else {
        log::warn!("a session failed: {error}");
    }
    if let Err(error) = send_failure(&stream, &error, drain.get()) {
        log::debug!("the error of a session was not delivered: {error}");
    }
}

/// Serves a peer once its right is known.
fn serve_peer(
    mut stream: &Stream,
    host: &Arc<Host>,
    token: &str,
    admit: &Admit<'_>,
) -> Result<(), SessionError> {
    let right = receive_greeting(stream, host, token)?;
    if let Err(error) = admit(&right) {
        log::info!("a peer is refused: {error}");
        message::send_error(&mut stream, MessageKind::Refused, &error)?;
        return Ok(());
    }
    message::send(&mut stream, MessageKind::Welcome, right.welcome())?;
    let buffer = match right {
        Right::Read(_) => READER_BUFFER_BYTES,
        Right::WriteAny | Right::Write(_) => BUFFER_BYTES,
    };
    let mut connection = ServerConnection::new(stream, buffer)?;
    match right {
        Right::WriteAny => connection.serve_session(host, None),
        Right::Write(writer) => connection.serve_session(host, Some(&writer.root)),
        Right::Read(root) => connection.serve_reads(host, &root),
    }
}

/// Receives the greeting, which gives the right to open a session or to read. A peer without a
/// right gets only an error, and can send only a few bytes.
fn receive_greeting(stream: &Stream, host: &Host, token: &str) -> Result<Right, SessionError> {
    let deadline = Instant::now() + GREETING;
    // The greeting is read without a buffer, because the bytes after it are for the connection's
    // buffer.
    let mut greeting = ReadUntil::new(stream, deadline, Stream::set_read_timeout);
    let received = match message::receive(&mut greeting, MAX_GREETING)? {
        Some((MessageKind::Hello, received)) => received,
        Some((kind, _)) => return Err(unexpected(kind, "Hello")),
        None => {
            return Err(SessionError::WorkerGone(
                io::ErrorKind::UnexpectedEof.into(),
            ));
        }
    };
    let right = Right::of(&received, stream, host, token)?;
    stream.set_read_timeout(None)?;
    Ok(right)
}

/// Sends the error to the worker and reads what the worker still sends: closing a connection with
/// unread data could lose the error.
fn send_failure(mut stream: &Stream, error: &Error, drain: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(drain))?;
    message::send_error(&mut stream, MessageKind::Error, error)?;
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (started, mut sink) = (Instant::now(), vec![0; BUFFER_BYTES]);
    while started.elapsed() < drain {
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

/// Counts a peer, or returns the error that refuses it.
pub type Admit<'a> = dyn Fn(&Right) -> holdfast_core::Result<()> + 'a;

/// A connection to a worker or a reader.
struct ServerConnection {
    reader: BufReader<Stream>,
    writer: BufWriter<Stream>,
}

impl ServerConnection {
    fn new(stream: &Stream, buffer: usize) -> io::Result<Self> {
        Ok(Self {
            reader: BufReader::with_capacity(buffer, stream.try_clone()?),
            writer: BufWriter::with_capacity(buffer, stream.try_clone()?),
        })
    }

    /// Serves a worker's session. `writable` is the only root that it may have; none: any root.
    fn serve_session(
        &mut self,
        host: &Arc<Host>,
        writable: Option<&WritableRoot>,
    ) -> Result<(), SessionError> {
        let mut session = self.open(host, writable)?;
        let mut batches = BatchReceiver::default();
        loop {
            let (kind, payload) = self.receive()?;
            match kind {
                MessageKind::Columns => {
                    session.columns(&*batch_stream::decode_columns(payload)?)?;
                    continue;
                }
                MessageKind::Batch | MessageKind::End => {}
                _ => return Err(unexpected(kind, "Columns, Batch or End")),
            }
            for batch in batches
                .receive(payload)
                .map_err(|error| session.with_context(error))?
            {
                session.push(batch)?;
            }
            if kind == MessageKind::End {
                break;
            }
        }
        let schema = batches.schema();
        let mut worker = RemoteWorker {
            connection: self,
            output: BatchSender::default(),
            failure: None,
        };
        let staged = session.finish(schema.as_deref(), &mut worker);
        let RemoteWorker {
            connection,
            failure,
            ..
        } = worker;
        match (failure, staged) {
            (Some(error), _) => Err(SessionError::WorkerGone(error)),
            (None, staged) => Ok(connection.send_json(MessageKind::Staged, &staged?)?),
        }
    }

    /// Answers a reader until it disconnects.
    fn serve_reads(&mut self, host: &Arc<Host>, root: &str) -> Result<(), SessionError> {
        limit_waits(self.reader.get_ref())?;
        let mut reads = ReadConnection::new(host, root, &mut self.writer);
        let memory = host.memory().reads();
        while let Some(request) = read_requests::receive(&mut self.reader, memory)? {
            let ReceivedRequest {
                kind,
                payload,
                memory: _held,
            } = request;
            match kind {
                MessageKind::Read => reads.answer(payload)?,
                MessageKind::ReadStored => reads.answer_stored(&payload)?,
                MessageKind::Echo => reads.echo(&payload)?,
                _ => return Err(unexpected(kind, "Read, ReadStored or Echo")),
            }
        }
        Ok(())
    }

    /// Opens the session. `writable` is the only root that it may have; none: any root. The worker
    /// may return to this connection if the owner that it was sent to is unreachable.
    fn open(
        &mut self,
        host: &Arc<Host>,
        writable: Option<&WritableRoot>,
    ) -> Result<Session, SessionError> {
        loop {
            let (kind, payload) = self.receive()?;
            if kind != MessageKind::Open {
                return Err(unexpected(kind, "Open"));
            }
            let routed = match writable {
                None => Some(Session::open(host, &payload)?),
                Some(root) => Session::open_from_network(host, root, &payload)?,
            };
            let Some(routed) = routed else {
                message::send(&mut self.writer, MessageKind::NotServed, &[])?;
                continue;
            };
            match routed {
                Routed::Local(session, opened) => {
                    self.send_json(MessageKind::Opened, &opened)?;
                    return Ok(*session);
                }
                Routed::Remote(moved) => self.send_json(MessageKind::Moved, &moved)?,
            }
        }
    }

    fn receive(&mut self) -> Result<(MessageKind, Vec<u8>), SessionError> {
        message::receive(&mut self.reader, MAX_PAYLOAD)?
            .ok_or_else(|| SessionError::WorkerGone(io::ErrorKind::UnexpectedEof.into()))
    }

    fn send_json(
        &mut self,
        kind: MessageKind,
        message: &impl serde::Serialize,
    ) -> Result<(), SessionError> {
        let json = serde_json::to_vec(message).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("an answer cannot be written as JSON: {error}"),
            )
        })?;
        Ok(message::send(&mut self.writer, kind, &json)?)
    }
}

/// A worker at the other end of a connection, whose input has ended.
struct RemoteWorker<'a> {
    connection: &'a mut ServerConnection,
    output: BatchSender,
    /// The failure of the connection.
    failure: Option<io::Error>,
}

impl RemoteWorker<'_> {
    /// Records that the connection failed, and returns the error for the session.
    fn disconnected(&mut self, error: io::Error) -> Error {
        let disconnected = worker_gone(&error);
        self.failure = Some(error);
        disconnected
    }

    fn check_sent(&mut self, sent: Result<(), SendError>) -> holdfast_core::Result<()> {
        sent.map_err(|error| match error {
            SendError::Batch(error) => error,
            SendError::Stream(error) => self.disconnected(error),
        })
    }
}

impl Worker for RemoteWorker<'_> {
    fn emit(&mut self, batch: RecordBatch) -> holdfast_core::Result<()> {
        let writer = &mut self.connection.writer;
        let sent = self
            .output
            .send(writer, MessageKind::Output, &batch)
            .and_then(|()| writer.flush().map_err(SendError::Stream));
        self.check_sent(sent)
    }

    fn call(&mut self) -> holdfast_core::Result<CallMessage> {
        match self.connection.receive() {
            Ok((MessageKind::Call, payload)) => CallMessage::decode(payload),
            Ok((kind, _)) => match unexpected(kind, "Call") {
                SessionError::Failed(error) => Err(error),
                SessionError::WorkerGone(error) => Err(self.disconnected(error)),
            },
            Err(SessionError::Failed(error)) => Err(error),
            Err(SessionError::WorkerGone(error)) => Err(self.disconnected(error)),
        }
    }

    fn answer(&mut self, answer: &CallMessage) -> holdfast_core::Result<()> {
        let sent = answer.send(&mut self.connection.writer, MessageKind::Answer);
        self.check_sent(sent)
    }

    fn refuse(&mut self, error: &Error) -> holdfast_core::Result<()> {
        message::send_error(&mut self.connection.writer, MessageKind::Refused, error)
            .map_err(|error| self.disconnected(error))
    }

    fn check_alive(&mut self) -> holdfast_core::Result<()> {
        check_waiting(&mut self.connection.reader).map_err(|error| worker_gone(&error))
    }
}

fn worker_gone(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::InvalidState,
        format!("the worker is gone: {error}"),
    )
}

fn unexpected(kind: MessageKind, wanted: &str) -> SessionError {
    let text = format!(
        "the worker sent {kind:?} where {wanted} belongs: worker and host are of different \
         versions"
    );
    SessionError::Failed(Error::new(ErrorKind::InvalidState, text))
}

/// Checks that the worker still waits for its answer. A waiting worker sends nothing, so data or an
/// end of the stream means that it does not wait.
fn check_waiting(reader: &mut BufReader<Stream>) -> io::Result<()> {
    reader.get_ref().set_nonblocking(true)?;
    let read = loop {
        match reader.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    reader.get_ref().set_nonblocking(false)?;
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}
