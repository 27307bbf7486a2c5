//! Limits how long a client may accept no bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail with `TimedOut` if the peer accepts no bytes for a time.
pub struct WriteLimit<S> {
    stream: S,
    limit: Duration,
    /// Ends when the peer has accepted nothing for the limit; none while it accepts.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteLimit<S> {
    /// Limits a stream.
    pub fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            stalled: None,
        }
    }

    /// Returns the stream's result of a write, or an error if writes are pending for too long.
    fn limited<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        if stalled.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // The next write fails at once, too.
        stalled.as_mut().reset(Instant::now());
        let text = format!("the client has read nothing for {} s", limit.as_secs_f64());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limited(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.limited(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.limited(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limited(ended, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn writes_fail_only_if_the_peer_reads_nothing() {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(4);
            let mut ours = WriteLimit::new(ours, Duration::from_millis(50));
            let reading = async {
                let mut read = [0; 8];
                theirs.read_exact(&mut read).await.expect("the bytes");
            };
            let (written, ()) = tokio::join!(ours.write_all(b"12345678"), reading);
            written.expect("the peer reads");
            let error = ours.write_all(b"12345678").await.expect_err("it does not");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            let error = ours.write_all(b"9").await.expect_err("nor later");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
