//! The worker's end of a session: a blocking client without threads and without a runtime, so that
//! it works in a process that Spark's daemon has forked and will end with `_exit`.

mod connection;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::client::connection::{Failed, Line, Peer};
use crate::net::call::Message;
use crate::net::message::{self, BatchReceiver, BatchSender, Kind, SendError};
use crate::net::socket::Endpoint;
use crate::operator::process::OutputDigest;
use crate::protocol::{HostId, Owner};

/// So many times a session's partition may turn out to be elsewhere again.
const MOVES: usize = 16;

/// One connection to a state host, which is one session. A session whose partition another host
/// owns goes on there.
///
/// Its calls fail with what the host says, by its kind, with `InvalidState` where the host is gone
/// or of another version, and with `Serialization` for what cannot be sent or read.
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
    line: Line,
    input: BatchSender,
    opened: bool,
    /// The host knows the input's columns.
    told: bool,
    /// What has ended the session.
    ended: Option<Error>,
}

impl Client {
    /// Connects and shows the token. A host that does not answer within `patience`, this one or
    /// another that the session is sent to, is gone; a session itself may take any time.
    ///
    /// # Errors
    /// Plain I/O errors, since what to do about them is the caller's: `NotFound` and
    /// `ConnectionRefused` mean that no host listens (start one), `TimedOut` that it does not
    /// answer, `PermissionDenied` that the token is wrong.
    pub fn connect(socket: &Path, token: &str, patience: Duration) -> io::Result<Self> {
        let line = Line::connect(Peer {
            endpoint: Endpoint::Unix(socket.to_owned()),
            token: token.to_owned(),
            patience,
        })?;
        Ok(Self {
            line,
            input: BatchSender::default(),
            opened: false,
            told: false,
            ended: None,
        })
    }

    /// Opens the session: the request and the answer are JSON (`crate::session::request::Request`,
    /// `crate::session::request::Opened`). Where another host owns the partition, the session opens
    /// there; where that one is gone, this host is told, and goes on.
    ///
    /// # Errors
    /// `InvalidState` also for a second call, and where the partition moves again and again.
    pub fn open(&mut self, request: &str) -> Result<String> {
        if self.opened {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "this connection's session is open already: one connection is one session",
            ));
        }
        self.opened = true;
        let (mut asked, mut gone) = (request.to_owned(), HashMap::new());
        for _ in 0..MOVES {
            let owner = match ask(&mut self.line, &asked) {
                Ok(Asked::Opened(answer)) => return Ok(answer),
                Ok(Asked::Moved(owner)) => owner,
                Err(failed) => return Err(self.line.error(failed)),
            };
            match self.follow(&owner, &asked) {
                Ok(Some((line, answer))) => {
                    self.line = line;
                    return Ok(answer);
                }
                // It has moved on since.
                Ok(None) => {}
                Err(Failed::Said(error)) => return Err(error),
                Err(Failed::Gone(how)) => {
                    gone.insert(owner.host, how);
                    asked = with_gone(request, &gone)?;
                }
            }
        }
        Err(Error::new(
            ErrorKind::InvalidState,
            format!(
                "the session's partition has moved {MOVES} times while it was followed \
                 ({gone:?}); a retry of the task may find it"
            ),
        ))
    }

    /// Opens the session at another host; nothing if it is not there any more.
    fn follow(
        &self,
        owner: &Owner,
        request: &str,
    ) -> std::result::Result<Option<(Line, String)>, Failed> {
        let address = owner
            .endpoint
            .clone()
            .ok_or_else(|| Failed::Gone("it has no address".into()))?;
        let endpoint = Endpoint::Tcp(address);
        let unreachable =
            |how: &str| Failed::Gone(format!("host {} at {endpoint}: {how}", owner.host));
        let peer = Peer {
            endpoint: endpoint.clone(),
            token: owner.token.clone(),
            ..self.line.peer().clone()
        };
        let mut line = Line::connect(peer).map_err(|error| unreachable(&error.to_string()))?;
        match ask(&mut line, request) {
            Ok(Asked::Opened(answer)) => Ok(Some((line, answer))),
            // Ports are given out again, and an executor's hosts may have one token: an owner does
            // not ask for itself.
            Ok(Asked::Moved(next)) if next.host == owner.host => {
                Err(unreachable("another state host listens there now"))
            }
            Ok(Asked::Moved(_)) => Ok(None),
            Err(Failed::Gone(how)) => Err(unreachable(&how)),
            Err(said) => Err(said),
        }
    }

    /// Sends one batch of input. A session must be told its columns: push an empty batch if there
    /// may be no other, or to have the host bring the state up while the first rows are still to
    /// come.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = if batch.num_rows() == 0 && !self.told {
            message::send_columns(self.line.writer(), &batch.schema())
        } else {
            Ok(())
        };
        self.told = true;
        // Flushed at once: the host encodes this batch while the worker waits for the next.
        let sent = columns.and_then(|()| self.input.send(self.line.writer(), Kind::Batch, batch));
        let sent = sent.and_then(|()| self.line.writer().flush().map_err(SendError::Stream));
        self.sent(sent)
    }

    /// Ends the input of an operator whose code runs here: from now on it calls.
    pub fn end_input(&mut self) -> Result<()> {
        let ended = self.input.finish(self.line.writer(), Kind::End);
        self.sent(ended)
    }

    /// Asks the session something, and waits for the answer. What was wrong with a read's arguments
    /// leaves the session as it was; any other error has ended it, and is said again by what is
    /// asked after it.
    pub fn call(&mut self, call: &Message) -> Result<Message> {
        self.check_goes_on()?;
        let sent = call.send(self.line.writer(), Kind::Call);
        self.sent(sent)?;
        match self.receive()? {
            (Kind::Answer, payload) => Message::decode(payload),
            (Kind::Refused, payload) => Err(message::decode_error(&payload)),
            (kind, _) => Err(unexpected(kind, "a call")),
        }
    }

    /// The last call: the code is done, and `output` is the digest of what it gave. Returns the
    /// host's words about the stage (JSON, `crate::session::request::Staged`).
    pub fn done(mut self, output: &OutputDigest) -> Result<String> {
        self.check_goes_on()?;
        let call = Message::empty()
            .with("method", "done")
            .with("rows", output.rows())
            .with("digest", output.digest());
        let sent = call.send(self.line.writer(), Kind::Call);
        self.sent(sent)?;
        match self.receive()? {
            (Kind::Staged, payload) => text(payload),
            (kind, _) => Err(unexpected(kind, "the last call")),
        }
    }

    fn sent(&mut self, sent: std::result::Result<(), SendError>) -> Result<()> {
        sent.map_err(|error| match error {
            // It may be of writes that have waited, and must not be done without.
            SendError::Batch(error) => self.ended.insert(error).clone(),
            SendError::Stream(error) => {
                let failed = self.line.broken(&error);
                self.failed(failed)
            }
        })
    }

    fn failed(&mut self, failed: Failed) -> Error {
        self.ended.insert(self.line.error(failed)).clone()
    }

    fn check_goes_on(&self) -> Result<()> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Ends the input. The iterator ends only after the host has acknowledged the stage: output
    /// that was taken in full is output whose state change is in the log.
    pub fn finish(mut self) -> Result<Output> {
        self.end_input()?;
        Ok(Output {
            client: self,
            batches: BatchReceiver::default(),
            ready: Vec::new().into_iter(),
            end: End::Open,
        })
    }

    fn receive(&mut self) -> Result<(Kind, Vec<u8>)> {
        self.line.receive().map_err(|failed| self.failed(failed))
    }
}

/// What a host says to a request.
enum Asked {
    Opened(String),
    Moved(Owner),
}

fn ask(line: &mut Line, request: &str) -> std::result::Result<Asked, Failed> {
    if let Err(error) = message::send(line.writer(), Kind::Open, request.as_bytes()) {
        return Err(line.broken(&error));
    }
    match line.receive()? {
        (Kind::Opened, payload) => text(payload).map(Asked::Opened).map_err(Failed::Said),
        (Kind::Moved, payload) => {
            serde_json::from_slice(&payload)
                .map(Asked::Moved)
                .map_err(|error| {
                    Failed::Said(Error::new(
                        ErrorKind::Serialization,
                        format!("the state host's answer names no owner: {error}"),
                    ))
                })
        }
        (kind, _) => Err(Failed::Said(unexpected(kind, "an open"))),
    }
}

/// The request with the hosts that did not answer.
fn with_gone(request: &str, gone: &HashMap<HostId, String>) -> Result<String> {
    let failed = |error: serde_json::Error| {
        Error::new(ErrorKind::InvalidValue, format!("session request: {error}"))
    };
    let mut request: Value = serde_json::from_str(request).map_err(failed)?;
    request["gone"] = serde_json::to_value(gone).map_err(failed)?;
    Ok(request.to_string())
}

fn unexpected(kind: Kind, after: &str) -> Error {
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
    /// The host's words about the stage (JSON, `crate::session::request::Staged`), once the
    /// iterator has ended.
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
