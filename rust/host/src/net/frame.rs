//! Frames on a blocking stream: one type byte, a little-endian u32 length, the payload.
//!
//! ```text
//! | kind: u8 | length: u32 LE | payload: `length` bytes |
//! ```
//!
//! [`crate::net::message`] defines the kinds. A stream that ends between two frames has ended
//! cleanly; one that ends inside a frame fails with [`std::io::ErrorKind::UnexpectedEof`].

use std::io::{self, Read, Write};

use arrow_buffer::Buffer;

/// The largest payload of a frame. No sensible batch is as large; longer lengths are treated as
/// corruption.
pub const MAX_PAYLOAD: u32 = 1 << 30;

/// The largest payload before the peer has sent its token: an unknown peer cannot make the host
/// allocate more.
pub const MAX_GREETING: u32 = 4 << 10;

/// How much of a payload is allocated before it arrives. The rest is allocated as the bytes arrive,
/// because a peer may send a wrong length.
const FIRST_BYTES: usize = 1 << 20;

/// A received frame.
#[derive(Debug)]
pub struct Frame {
    /// The kind of the payload; see [`crate::net::message`].
    pub kind: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

/// The start of a frame.
#[derive(Debug, Clone, Copy)]
pub struct FrameHeader {
    /// The kind of the payload; see [`crate::net::message`].
    pub kind: u8,
    /// How many bytes the payload has.
    pub length: u32,
}

/// Reads one frame; `None` if the stream has ended between two frames.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a length above `limit`, checked before anything is
/// allocated; `UnexpectedEof` if the stream ends inside the frame; otherwise the stream's.
pub fn read(stream: &mut impl Read, limit: u32) -> io::Result<Option<Frame>> {
    let Some(FrameHeader { kind, length }) = read_header(stream)? else {
        return Ok(None);
    };
    check_length(length, limit)?;
    let payload = read_payload(stream, length)?;
    Ok(Some(Frame { kind, payload }))
}

/// Reads the start of a frame, without its payload; `None` if the stream has ended between two
/// frames.
///
/// # Errors
/// `UnexpectedEof` if the stream ends inside it; otherwise the stream's.
pub fn read_header(stream: &mut impl Read) -> io::Result<Option<FrameHeader>> {
    let mut kind = [0_u8; 1];
    loop {
        match stream.read(&mut kind) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut length = [0_u8; 4];
    stream.read_exact(&mut length)?;
    Ok(Some(FrameHeader {
        kind: kind[0],
        length: u32::from_le_bytes(length),
    }))
}

/// Checks the length of a payload.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a length above `limit`.
pub fn check_length(length: u32, limit: u32) -> io::Result<()> {
    if length <= limit {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a frame of {length} bytes is larger than the limit of {limit} bytes"),
    ))
}

/// Reads the payload after a header. Memory grows as its bytes arrive.
///
/// # Errors
/// `UnexpectedEof` if the stream ends inside it; otherwise the stream's.
pub fn read_payload(stream: &mut impl Read, length: u32) -> io::Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(FIRST_BYTES.min(length as usize));
    let read = stream.take(u64::from(length)).read_to_end(&mut payload)?;
    if read < length as usize {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the stream ended after {read} of a frame's {length} bytes"),
        ));
    }
    Ok(payload)
}

/// Writes one frame from one buffer. The caller flushes.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for more than [`MAX_PAYLOAD`] bytes, and nothing is written;
/// otherwise the stream's.
pub fn write(stream: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    header(stream, kind, payload.len())?;
    stream.write_all(payload)
}

/// Writes one frame from several buffers, without a copy into one.
///
/// # Errors
/// As [`write()`].
pub fn write_buffers(stream: &mut impl Write, kind: u8, buffers: &[Buffer]) -> io::Result<()> {
    header(stream, kind, buffers.iter().map(Buffer::len).sum())?;
    buffers
        .iter()
        .try_for_each(|buffer| stream.write_all(buffer.as_slice()))
}

fn header(stream: &mut impl Write, kind: u8, length: usize) -> io::Result<()> {
    let length = u32::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_PAYLOAD)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a frame of {length} bytes is larger than the limit of {MAX_PAYLOAD} bytes"
                ),
            )
        })?;
    let mut header = [0_u8; 5];
    header[0] = kind;
    header[1..].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, kind, payload).expect("a Vec takes everything");
        bytes
    }

    #[test]
    fn frames_arrive_in_order_and_the_end_is_clean() {
        let mut bytes = framed(7, b"abc");
        write_buffers(
            &mut bytes,
            8,
            &[
                Buffer::from(b"de".as_slice()),
                Buffer::from(b"f".as_slice()),
            ],
        )
        .expect("a Vec takes everything");
        let mut stream = bytes.as_slice();
        let first = read(&mut stream, MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(
            (first.kind, first.payload.as_slice()),
            (7, b"abc".as_slice())
        );
        let second = read(&mut stream, MAX_PAYLOAD)
            .expect("a whole frame")
            .expect("not the end");
        assert_eq!(
            (second.kind, second.payload.as_slice()),
            (8, b"def".as_slice())
        );
        assert!(read(&mut stream, MAX_PAYLOAD).expect("clean end").is_none());
    }

    #[test]
    fn stream_that_ends_inside_a_frame_is_an_error() {
        let bytes = framed(7, b"abc");
        for cut in 1..bytes.len() {
            let error = read(&mut &bytes[..cut], MAX_PAYLOAD).expect_err("cut inside the frame");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {cut}");
        }
    }

    #[test]
    fn length_above_the_limit_is_refused() {
        let bytes = framed(7, &[0; 65]);
        let error = read(&mut bytes.as_slice(), 64).expect_err("above the limit");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("65 bytes"), "{error}");
    }
}
