//! A reader's connection to one host.

use std::io::{self, BufReader, BufWriter};
use std::time::Duration;

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::machine;
use crate::net::call::CallMessage;
use crate::net::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::net::message::{self, MessageKind};
use crate::net::metrics::HostMetrics;
use crate::net::read::{self, READ, ReadAnswer, ReadEpoch, ReadRequest, ReadTarget};
use crate::net::request::{EncodedRequest, MAX_REQUEST};
use crate::net::socket::{Endpoint, Stream};
use crate::net::stored_read::{self, StoredAnswer};
use crate::protocol::OperatorName;
use crate::root::ReaderAddress;
use crate::tables::{EmitRows, FoundRow, ReadCall, ReadRows};

const BUFFER_BYTES: usize = 64 << 10;
/// How long a host may take to accept a connection or a message, or to answer the greeting.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a host may take to answer a request, or to find the next rows of a scan.
const SLOW_ROWS: Duration = Duration::from_secs(60);

/// A connection on which a reader sends one request after the other.
pub struct HostConnection {
    reader: BufReader<Stream>,
    writer: BufWriter<Stream>,
}

/// The rows of keys as they are stored: none where a key was not found.
pub type StoredFound = Vec<Option<FoundRow>>;

/// Why a host did not answer a read.
#[derive(Debug)]
pub enum ReadFailure {
    /// The host is gone, does not answer, or no longer has the partition: ask elsewhere.
    Elsewhere(String),
    /// The request failed.
    Failed(Error),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        Self::Elsewhere(error.to_string())
    }
}

/// Maps the error of a wait for rows. A slow host is not asked again, because it would repeat the
/// work.
fn slow(error: io::Error) -> ReadFailure {
    match error.kind() {
        // `TimedOut` is another error: the kernel has found that the host's machine is down.
        io::ErrorKind::WouldBlock => {
            let text = format!(
                "the state host sent no answer for {} s: if the read is large, ask for fewer keys, \
                 or for a smaller range",
                SLOW_ROWS.as_secs()
            );
            ReadFailure::Failed(Error::new(ErrorKind::Io, text))
        }
        _ => error.into(),
    }
}

impl From<Error> for ReadFailure {
    fn from(error: Error) -> Self {
        // The host has closed the database: the partition has moved, or the host ends.
        match error.kind() {
            ErrorKind::StoreClosed => Self::Elsewhere(error.to_string()),
            _ => Self::Failed(error),
        }
    }
}

/// A read of a table.
#[derive(Clone, Copy)]
pub struct TableCall<'a> {
    /// The operator.
    pub operator: &'a OperatorName,
    /// The table.
    pub store: &'a str,
    /// Which rows are read.
    pub call: &'a ReadCall,
}

impl TableCall<'_> {
    /// Whether a request is larger than usual, and its keys can be divided over several requests.
    fn may_divide(&self, request: &EncodedRequest, batch: &RecordBatch) -> bool {
        !request.is_usual() && self.call.rows == ReadRows::Get && batch.num_rows() > 1
    }

    /// Checks that a request of this many bytes is not too large for a host.
    fn check_size(&self, bytes: usize) -> Result<()> {
        check_size(bytes, || {
            let Self {
                operator, store, ..
            } = self;
            format!(
                "a key, a bound or the list of columns for table {store} of operator {operator}"
            )
        })
    }
}

fn check_size(bytes: usize, what: impl FnOnce() -> String) -> Result<()> {
    if bytes <= MAX_REQUEST {
        return Ok(());
    }
    let text = format!(
        "{} needs a request of {bytes} bytes, and a state host takes at most {MAX_REQUEST}; \
         offline=\"only\" reads without state hosts",
        what()
    );
    Err(Error::new(ErrorKind::InvalidValue, text))
}

/// The result of a request to a host.
pub type FromHost<T> = std::result::Result<T, ReadFailure>;

impl HostConnection {
    /// Connects to a host and sends the token.
    ///
    /// # Errors
    /// `Elsewhere` if the host does not answer or rejects the token: another process listens there.
    /// The host's if it serves too many readers.
    pub fn connect(address: &ReaderAddress) -> FromHost<Self> {
        let endpoint = match (&address.endpoint, address.machine == machine::name()) {
            (None, _) => Endpoint::Unix(address.socket.clone()),
            (Some(_), true) if address.socket.exists() => Endpoint::Unix(address.socket.clone()),
            (Some(endpoint), _) => Endpoint::Tcp(endpoint.clone()),
        };
        let stream = endpoint.connect(PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream.try_clone()?),
            writer: BufWriter::with_capacity(BUFFER_BYTES, stream),
        };
        let token = address.token.as_bytes();
        message::send(&mut connection.writer, MessageKind::Hello, token)?;
        match message::receive(&mut connection.reader, MAX_GREETING)? {
            Some((MessageKind::Welcome, _)) => {}
            // The host serves too many readers. Copies for all of them would cost more.
            Some((MessageKind::Refused, payload)) => {
                return Err(ReadFailure::Failed(message::decode_error(&payload)));
            }
            other => {
                let kind = other.map(|(kind, _)| kind);
                let text = format!("{endpoint} answers a greeting with {kind:?}");
                return Err(ReadFailure::Elsewhere(text));
            }
        }
        connection
            .writer
            .get_ref()
            .set_read_timeout(Some(SLOW_ROWS))?;
        Ok(connection)
    }

    /// Pins a view of the newest final epoch; none if the host cannot answer for the partition.
    ///
    /// # Errors
    /// The host's, and the connection's.
    pub fn pin(&mut self, target: &ReadTarget) -> FromHost<Option<(u64, ReadEpoch)>> {
        let target = target.clone();
        self.send(&ReadRequest::Pin { target })?;
        match self.receive()? {
            (ReadAnswer::Pinned { view, at }, _) => Ok(Some((view, at))),
            (ReadAnswer::Absent, _) => Ok(None),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Asks for the host's figures.
    ///
    /// # Errors
    /// The connection's.
    pub fn metrics(&mut self, root: &str) -> FromHost<HostMetrics> {
        let root = root.to_owned();
        self.send(&ReadRequest::Metrics { root })?;
        match self.receive()? {
            (ReadAnswer::Metrics { metrics }, _) => Ok(metrics),
            (answer, _) => Err(unexpected(&answer)),
        }
    }

    /// Sends bytes to the host, which returns them.
    ///
    /// # Errors
    /// `InvalidValue` for more bytes than a request may have; the connection's.
    pub fn echo(&mut self, bytes: &[u8]) -> FromHost<Vec<u8>> {
        check_size(bytes.len(), || "an echo".to_owned())?;
        message::send(&mut self.writer, MessageKind::Echo, bytes)?;
        self.receive_answer()
    }

    /// Releases a view.
    ///
    /// # Errors
    /// The connection's.
    pub fn unpin(&mut self, view: u64) -> FromHost<()> {
        self.send(&ReadRequest::Unpin { view })
    }

    /// Restarts the host's idle time of this connection, so that its views stay open.
    ///
    /// # Errors
    /// The connection's.
    pub fn touch(&mut self) -> FromHost<()> {
        // No view has this number.
        self.unpin(0)
    }

    /// Reads rows of a view. Many keys need several requests.
    ///
    /// # Errors
    /// `InvalidValue` for a key, a bound or a list of columns that is too large for a request, and
    /// nothing is sent; otherwise the host's, the connection's, and those of `emit`.
    pub fn rows(
        &mut self,
        view: u64,
        table: TableCall<'_>,
        batch: &RecordBatch,
        emit: &mut EmitRows<'_>,
    ) -> FromHost<()> {
        let request = ReadRequest::Rows {
            view,
            store: table.store.to_owned(),
            call: table.call.clone(),
        };
        let whole = EncodedRequest::new(&request, Some(batch))?;
        let requests = if table.may_divide(&whole, batch) {
            EncodedRequest::of_keys(&request, batch)?
        } else {
            vec![whole]
        };
        for request in &requests {
            table.check_size(request.length())?;
        }
        for request in &requests {
            request.send(&mut self.writer)?;
            self.receive_rows(emit)?;
        }
        Ok(())
    }

    /// Reads rows of the newest final epoch, and returns the epoch; none if the host cannot answer
    /// for the partition.
    ///
    /// # Errors
    /// As [`HostConnection::rows`].
    pub fn newest(
        &mut self,
        target: &ReadTarget,
        table: TableCall<'_>,
        batch: &RecordBatch,
        emit: &mut EmitRows<'_>,
    ) -> FromHost<Option<ReadEpoch>> {
        let request = ReadRequest::Newest {
            target: target.clone(),
            store: table.store.to_owned(),
            call: table.call.clone(),
        };
        let request = EncodedRequest::new(&request, Some(batch))?;
        if table.may_divide(&request, batch) {
            // All requests read one view, so all answers are of one epoch.
            let Some((view, at)) = self.pin(target)? else {
                return Ok(None);
            };
            self.rows(view, table, batch, emit)?;
            self.unpin(view)?;
            return Ok(Some(at));
        }
        table.check_size(request.length())?;
        request.send(&mut self.writer)?;
        self.receive_rows(emit)
    }

    /// Reads the rows of a few keys of the newest final epoch as they are stored, and returns the
    /// epoch with them. Returns no rows if they are too large for this, and no epoch if the host
    /// cannot answer for the partition.
    ///
    /// # Errors
    /// The host's, and the connection's.
    pub fn stored(&mut self, read: &[u8]) -> FromHost<Option<(ReadEpoch, Option<StoredFound>)>> {
        message::send(&mut self.writer, MessageKind::ReadStored, read)?;
        let answer = self.receive_answer()?;
        Ok(match stored_read::decode(&answer)? {
            StoredAnswer::Absent => None,
            StoredAnswer::TooLarge { at } => Some((at, None)),
            StoredAnswer::Rows { at, rows } => Some((at, Some(rows))),
        })
    }

    fn receive_rows(&mut self, emit: &mut EmitRows<'_>) -> FromHost<Option<ReadEpoch>> {
        loop {
            match self.receive()? {
                (ReadAnswer::Rows { more, at }, rows) => {
                    emit(rows).map_err(ReadFailure::Failed)?;
                    if !more {
                        return Ok(Some(at));
                    }
                }
                (ReadAnswer::Absent, _) => return Ok(None),
                (answer, _) => return Err(unexpected(&answer)),
            }
        }
    }

    fn send(&mut self, request: &ReadRequest<ReadCall>) -> FromHost<()> {
        Ok(EncodedRequest::new(request, None)?.send(&mut self.writer)?)
    }

    fn receive(&mut self) -> FromHost<(ReadAnswer, RecordBatch)> {
        let answer = CallMessage::decode(self.receive_answer()?)?;
        Ok((read::parse(answer.attribute(READ))?, answer.batch))
    }

    fn receive_answer(&mut self) -> FromHost<Vec<u8>> {
        let received = message::receive(&mut self.reader, MAX_PAYLOAD).map_err(slow)?;
        let (kind, payload) = received
            .ok_or_else(|| ReadFailure::Elsewhere("the host closed the connection".to_owned()))?;
        match kind {
            MessageKind::Answer => Ok(payload),
            MessageKind::Refused | MessageKind::Error => {
                Err(message::decode_error(&payload).into())
            }
            kind => {
                let text = format!("the state host answers a read with {kind:?}");
                Err(ReadFailure::Failed(Error::new(
                    ErrorKind::InvalidState,
                    text,
                )))
            }
        }
    }
}

fn unexpected(answer: &ReadAnswer) -> ReadFailure {
    let text = format!("the state host answers a read with {answer:?}");
    ReadFailure::Failed(Error::new(ErrorKind::InvalidState, text))
}

/// Maps a failure to none if the read may be sent elsewhere.
pub fn failed<T>(result: FromHost<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ReadFailure::Elsewhere(why)) => {
            log::debug!("a host does not answer a reader: {why}");
            Ok(None)
        }
        Err(ReadFailure::Failed(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_from_a_machine_that_is_down_goes_elsewhere() {
        let down = slow(io::ErrorKind::TimedOut.into());
        assert!(matches!(down, ReadFailure::Elsewhere(_)), "{down:?}");
        let slow = slow(io::ErrorKind::WouldBlock.into());
        assert!(matches!(slow, ReadFailure::Failed(_)), "{slow:?}");
    }
}
