//! The worker's end of a session: a blocking client without threads and without a runtime. It works
//! in a process that Spark's daemon has forked and that ends with `_exit`.

mod connection;
mod credential;
mod peer;
mod session_request;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::client::connection::{ClientConnection, ConnectionError};
use crate::client::credential::Credential;
use crate::client::peer::Peer;
use crate::client::session_request::SessionRequest;
use crate::host::request::MovedTo;
use crate::net::batch_stream::{self, BatchReceiver, BatchSender, SendError};
use crate::net::call::CallMessage;
use crate::net::message::{self, MessageKind};
use crate::net::socket::Endpoint;
use crate::protocol::Digest;

/// How many times a session follows its partition to another host.
const MAX_MOVES: usize = 16;

/// One connection to a state host, which is one session. If another host owns the session's
/// partition, the session continues there.
///
/// Methods fail with the host's own error, which keeps its kind. They fail with `InvalidState` if
/// the host is unreachable or of another version, and with `Serialization` for data that cannot be
/// sent or read.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
/// # let batch = arrow_array::RecordBatch::new_empty(schema);
/// use holdfast_host::client::Client;
///
/// let patience = std::time::Duration::from_secs(5);
/// let mut client = Client::connect("/tmp/host/socket".as_ref(), "token", patience)?;
/// client.open(r#"{"root": "…"}"#)?;
/// client.push(&batch)?;
/// for output in client.finish()? {
///     println!("{} rows", output?.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Client {
    connection: ClientConnection,
    input: BatchSender,
    opened: bool,
    /// Whether the columns of the input were sent.
    columns_sent: bool,
    /// The error that ended the session.
    ended: Option<Error>,
}

impl Client {
    /// Connects and sends the token.
    ///
    /// A host that does not answer a greeting within `patience` counts as unreachable. This holds
    /// for this host and for another that the session moves to. A session itself may take any time.
    ///
    /// # Errors
    /// I/O errors, which the caller handles: `NotFound` and `ConnectionRefused` if no host listens
    /// (start one), `TimedOut` if the host does not answer, `PermissionDenied` if the token is
    /// wrong.
    pub fn connect(socket: &Path, token: &str, patience: Duration) -> io::Result<Self> {
        let connection = ClientConnection::connect(Peer {
            endpoint: Endpoint::Unix(socket.to_owned()),
            credential: Credential::Token(token.to_owned()),
            patience,
        })?;
        Ok(Self {
            connection,
            input: BatchSender::default(),
            opened: false,
            columns_sent: false,
            ended: None,
        })
    }

    /// Opens the session and returns the host's answer.
    ///
    /// The request and the answer are JSON (`crate::host::request::Request`,
    /// `crate::host::request::Opened`). If another host owns the partition, the session opens
    /// there. Worker and owner prove to each other that they have the request's secret, which is
    /// not sent. If the owner is unreachable or proves nothing, the worker asks this host again,
    /// which takes the partition over or names the previous owner.
    ///
    /// # Errors
    /// `InvalidState` also for a second call, and if the partition keeps moving.
    pub fn open(&mut self, request: &str) -> Result<String> {
        if self.opened {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "this connection's session is open already: one connection is one session",
            ));
        }
        self.opened = true;
        let mut request = SessionRequest::new(request);
        for _ in 0..MAX_MOVES {
            let moved = match send_open(&mut self.connection, &request.for_own_host()?) {
                Ok(OpenReply::Opened(answer)) => return Ok(answer),
                Ok(OpenReply::Moved(moved)) => moved,
                Ok(OpenReply::NotServed) => {
                    return Err(unexpected(MessageKind::NotServed, "an open"));
                }
                Err(failure) => return Err(self.connection.user_error(failure)),
            };
            match self.open_at(&moved, &request) {
                Ok(Some((connection, answer))) => {
                    self.connection = connection;
                    return Ok(answer);
                }
                // The partition has moved again.
                Ok(None) => {}
                Err(ConnectionError::Reported(error)) => return Err(error),
                Err(ConnectionError::Unreachable(how)) => {
                    request.add_unreachable(moved.owner.host, how);
                }
            }
        }
        Err(Error::new(
            ErrorKind::InvalidState,
            format!(
                "the session's partition has moved {MAX_MOVES} times while it was followed \
                 ({:?}); a retry of the task may find it",
                request.unreachable()
            ),
        ))
    }

    /// Opens the session at the owner; `None` if the partition has moved again.
    fn open_at(
        &self,
        MovedTo { root_id, owner }: &MovedTo,
        request: &SessionRequest<'_>,
    ) -> std::result::Result<Option<(ClientConnection, String)>, ConnectionError> {
        let (request, key) = request
            .for_owner(root_id)
            .map_err(ConnectionError::Reported)?;
        let endpoint = owner
            .endpoint
            .clone()
            .ok_or_else(|| ConnectionError::Unreachable("it has no address".into()))?;
        let endpoint = Endpoint::Tcp(endpoint);
        let unreachable = |how: &str| {
            ConnectionError::Unreachable(format!("host {} at {endpoint}: {how}", owner.host))
        };
        let peer = Peer {
            endpoint: endpoint.clone(),
            credential: Credential::Key(key),
            ..self.connection.peer().clone()
        };
        let mut connection = ClientConnection::connect_patiently(peer)
            .map_err(|error| unreachable(&error.to_string()))?;
        match send_open(&mut connection, &request) {
            Ok(OpenReply::Opened(answer)) => Ok(Some((connection, answer))),
            // An owner never sends a session to itself. So the process there is not the owner.
            Ok(OpenReply::Moved(next)) if next.owner.host == owner.host => {
                Err(unreachable("another state host listens there now"))
            }
            Ok(OpenReply::Moved(_)) => Ok(None),
            // Tasks of different executors may have different `local_dir`s.
            Ok(OpenReply::NotServed) => Err(unreachable(
                "no task of its executor uses this root and local_dir",
            )),
            Err(ConnectionError::Unreachable(how)) => Err(unreachable(&how)),
            Err(reported) => Err(reported),
        }
    }

    /// Sends one batch of input.
    ///
    /// The host needs the columns of the input: push an empty batch if the input may have no batch.
    /// An empty first batch also lets the host restore the state before the first rows arrive.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = if batch.num_rows() == 0 && !self.columns_sent {
            batch_stream::send_columns(self.connection.writer(), &batch.schema())
        } else {
            Ok(())
        };
        self.columns_sent = true;
        // Flushed at once: the host encodes this batch while the worker waits for the next.
        let sent = columns.and_then(|()| {
            self.input
                .send(self.connection.writer(), MessageKind::Batch, batch)
        });
        let sent = sent.and_then(|()| self.connection.writer().flush().map_err(SendError::Stream));
        self.check_sent(sent)
    }

    /// Ends the input of an operator whose code runs in the worker; its calls follow.
    pub fn end_input(&mut self) -> Result<()> {
        let ended = self
            .input
            .finish(self.connection.writer(), MessageKind::End);
        self.check_sent(ended)
    }

    /// Sends a call and waits for its answer.
    ///
    /// An invalid argument of a read leaves the session open. Any other error ends the session, and
    /// later calls return the same error.
    pub fn call(&mut self, call: &CallMessage) -> Result<CallMessage> {
        self.check_open()?;
        let sent = call.send(self.connection.writer(), MessageKind::Call);
        self.check_sent(sent)?;
        let error = match self.receive()? {
            (MessageKind::Answer, payload) => match CallMessage::decode(payload) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            },
            (MessageKind::Refused, payload) => return Err(message::decode_error(&payload)),
            (kind, _) => unexpected(kind, "a call"),
        };
        Err(self.ended.insert(error).clone())
    }

    /// Sends the last call, with the row count and the digest of the code's output. Returns the
    /// host's report of the stage (JSON, `crate::host::request::StageReport`).
    pub fn done(mut self, rows: u64, digest: &Digest) -> Result<String> {
        self.check_open()?;
        let call = CallMessage::empty()
            .with("method", "done")
            .with("rows", rows)
            .with("digest", digest);
        let sent = call.send(self.connection.writer(), MessageKind::Call);
        self.check_sent(sent)?;
        match self.receive()? {
            (MessageKind::Staged, payload) => text(payload),
            (kind, _) => Err(unexpected(kind, "the last call")),
        }
    }

    fn check_sent(&mut self, sent: std::result::Result<(), SendError>) -> Result<()> {
        sent.map_err(|error| match error {
            // The batch may carry buffered writes, and the session cannot continue without them.
            SendError::Batch(error) => self.ended.insert(error).clone(),
            SendError::Stream(error) => {
                let failure = self.connection.write_failure(&error);
                self.end(failure)
            }
        })
    }

    fn end(&mut self, failure: ConnectionError) -> Error {
        self.ended
            .insert(self.connection.user_error(failure))
            .clone()
    }

    fn check_open(&self) -> Result<()> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Ends the input and returns the output.
    ///
    /// The iterator ends without an error only after the host has acknowledged the stage: then the
    /// changes of the epoch are in the log.
    pub fn finish(mut self) -> Result<SessionOutput> {
        self.end_input()?;
        Ok(SessionOutput {
            client: self,
            batches: BatchReceiver::default(),
            ready: Vec::new().into_iter(),
            state: OutputState::Open,
        })
    }

    fn receive(&mut self) -> Result<(MessageKind, Vec<u8>)> {
        self.connection
            .receive()
            .map_err(|failure| self.end(failure))
    }
}

/// A host's answer to a request.
enum OpenReply {
    Opened(String),
    Moved(MovedTo),
    NotServed,
}

fn send_open(
    connection: &mut ClientConnection,
    request: &str,
) -> std::result::Result<OpenReply, ConnectionError> {
    if let Err(error) = message::send(connection.writer(), MessageKind::Open, request.as_bytes()) {
        return Err(connection.write_failure(&error));
    }
    match connection.receive()? {
        (MessageKind::Opened, payload) => text(payload)
            .map(OpenReply::Opened)
            .map_err(ConnectionError::Reported),
        (MessageKind::Moved, payload) => serde_json::from_slice(&payload)
            .map(OpenReply::Moved)
            .map_err(|error| {
                ConnectionError::Reported(Error::new(
                    ErrorKind::Serialization,
                    format!("the state host's answer names no owner: {error}"),
                ))
            }),
        (MessageKind::NotServed, _) => Ok(OpenReply::NotServed),
        (kind, _) => Err(ConnectionError::Reported(unexpected(kind, "an open"))),
    }
}

fn unexpected(kind: MessageKind, after: &str) -> Error {
    Error::new(
        ErrorKind::InvalidState,
        format!(
            "the state host answers {after} with {kind:?}: worker and host are of different \
             versions"
        ),
    )
}

fn text(payload: Vec<u8>) -> Result<String> {
    String::from_utf8(payload).map_err(|_| {
        Error::new(
            ErrorKind::Serialization,
            "the state host's answer is not UTF-8",
        )
    })
}

/// Whether an output was read to its end.
enum OutputState {
    Open,
    Staged(String),
    Failed,
}

/// The output batches of a session, in order. The stage is acknowledged after the last one.
pub struct SessionOutput {
    client: Client,
    batches: BatchReceiver,
    ready: std::vec::IntoIter<RecordBatch>,
    state: OutputState,
}

impl SessionOutput {
    /// The host's report of the stage (JSON, `crate::host::request::StageReport`), once the
    /// iterator has ended without an error.
    pub fn staged(&self) -> Option<&str> {
        match &self.state {
            OutputState::Staged(json) => Some(json),
            OutputState::Open | OutputState::Failed => None,
        }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Ok(Some(batch));
            }
            match self.client.receive()? {
                (MessageKind::Output, payload) => {
                    self.ready = self.batches.receive(payload)?.into_iter();
                }
                (MessageKind::Staged, payload) => {
                    self.state = OutputState::Staged(text(payload)?);
                    return Ok(None);
                }
                (kind, _) => return Err(unexpected(kind, "the end of the input")),
            }
        }
    }
}

impl Iterator for SessionOutput {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if !matches!(self.state, OutputState::Open) {
            return None;
        }
        let next = self.advance();
        if next.is_err() {
            self.state = OutputState::Failed;
        }
        next.transpose()
    }
}
