//! Merged flights: a stream between driver and server that sends one Sync message per flight.
//!
//! `tokio_postgres` ends every statement with a Sync, and the server answers each Sync separately:
//! a flight of 17 statements gets 17 answers, each with a system call and a wake-up. [`Merged`]
//! omits all Syncs of a flight but the last, and adds to the server's answers the message "ready
//! for query" for which the driver waits after each statement. After a failed statement the server
//! skips the statements up to the Sync; [`Merged`] then gives the driver an error for each skipped
//! statement, the same as from a server in a failed transaction.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// State shared by a connection and its stream.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Whether the connection has a [`Merged`] stream. It has none if the driver does not call the
    /// connector.
    merges: AtomicBool,
    /// Number of statements in the flight that is sent next.
    announced: AtomicUsize,
    /// Whether the last command was answered with the tag COMMIT. The server answers the COMMIT of
    /// a failed transaction with the tag ROLLBACK (spec R11).
    committed: AtomicBool,
}

impl Flight {
    /// Records that the connection uses a [`Merged`] stream.
    pub(super) fn set_merges(&self) {
        self.merges.store(true, Ordering::Release);
    }

    /// Returns whether flights can be merged.
    pub(super) fn merges(&self) -> bool {
        self.merges.load(Ordering::Acquire)
    }

    /// Announces that the next `statements` statements are one flight. The driver must send them
    /// together, each with its Sync.
    pub(super) fn announce(&self, statements: usize) {
        self.announced.store(statements, Ordering::Release);
    }

    /// Returns whether the last command was a COMMIT that succeeded.
    pub(super) fn committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }
}

/// "Ready for query" message, inside a transaction.
const READY: &[u8] = b"Z\0\0\0\x05T";

/// Error message for a statement that the server has skipped.
const SKIPPED: &[u8] = b"E\0\0\0\x49SERROR\0VERROR\0C25P02\0\
    Man earlier statement of the flight has failed\0\0";

/// Maximum number of bytes that are buffered. If there are more, the stream first writes them to
/// the socket.
const HIGH_WATER: usize = 1 << 20;

/// Maximum number of bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// Stream between driver and socket that merges the statements of a flight.
#[derive(Debug)]
pub(super) struct Merged<S> {
    inner: S,
    flight: Arc<Flight>,
    requests: Frames,
    /// Number of Syncs of the flight that the driver has not sent yet.
    unsent: usize,
    outgoing: Vec<u8>,
    written: usize,
    answers: Frames,
    /// Number of statements of the flight that the server has not answered yet.
    unanswered: usize,
    /// First bytes of the message that is being read, enough to recognize the tag COMMIT.
    start: Vec<u8>,
    incoming: Vec<u8>,
    taken: usize,
    chunk: Box<[u8]>,
}

/// Parser of message frames. A message has a type, a length (of itself and the contents) and
/// contents.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; HEAD],
    have: usize,
    left: usize,
}

const HEAD: usize = 5;

impl Frames {
    /// Splits the next part off `bytes`: the head of a message (when it is complete), or contents.
    /// Returns that part and the bytes after it.
    fn next<'a>(&mut self, bytes: &'a [u8]) -> (Part<'a>, &'a [u8]) {
        if self.have < HEAD {
            let count = bytes.len().min(HEAD - self.have);
            let (head, rest) = bytes.split_at(count);
            self.head[self.have..self.have + count].copy_from_slice(head);
            self.have += count;
            if self.have < HEAD {
                return (Part::Nothing, rest);
            }
            let [_, length @ ..] = self.head;
            self.left = (u32::from_be_bytes(length) as usize).saturating_sub(4);
            return (Part::Head(self.head), rest);
        }
        let (contents, rest) = bytes.split_at(bytes.len().min(self.left));
        self.left -= contents.len();
        (Part::Contents(contents), rest)
    }

    /// Returns the type of the message that has just ended, or `None` inside a message.
    fn ended(&mut self) -> Option<u8> {
        let ended = self.have == HEAD && self.left == 0;
        ended.then(|| {
            self.have = 0;
            self.head[0]
        })
    }
}

enum Part<'a> {
    Nothing,
    Head([u8; HEAD]),
    Contents(&'a [u8]),
}

impl<S> Merged<S> {
    pub(super) fn new(inner: S, flight: Arc<Flight>) -> Self {
        Self {
            inner,
            flight,
            requests: Frames::default(),
            unsent: 0,
            outgoing: Vec::new(),
            written: 0,
            answers: Frames::default(),
            unanswered: 0,
            start: Vec::new(),
            incoming: Vec::new(),
            taken: 0,
            chunk: vec![0; CHUNK].into_boxed_slice(),
        }
    }

    pub(super) fn inner(&self) -> &S {
        &self.inner
    }

    /// Buffers bytes that the driver sends. Outside a flight they are not parsed, because the first
    /// message of a connection has no type.
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.unsent == 0 {
                let announced = self.flight.announced.swap(0, Ordering::AcqRel);
                if announced == 0 {
                    self.outgoing.extend_from_slice(bytes);
                    return;
                }
                (self.unsent, self.unanswered) = (announced, announced);
            }
            let (part, rest) = self.requests.next(bytes);
            bytes = rest;
            match part {
                Part::Nothing => {}
                Part::Head(head) if head[0] == b'S' && self.unsent > 1 => {}
                Part::Head(head) => self.outgoing.extend_from_slice(&head),
                Part::Contents(contents) => self.outgoing.extend_from_slice(contents),
            }
            if self.requests.ended() == Some(b'S') {
                self.unsent -= 1;
            }
        }
    }

    /// Buffers bytes that the server sends.
    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (part, rest) = self.answers.next(bytes);
            bytes = rest;
            match part {
                Part::Nothing => {}
                Part::Head(head) => {
                    self.start.clear();
                    self.incoming.extend_from_slice(&head);
                }
                Part::Contents(contents) => {
                    let room = b"COMMIT\0".len().saturating_sub(self.start.len());
                    self.start.extend_from_slice(&contents[..contents.len().min(room)]);
                    self.incoming.extend_from_slice(contents);
                }
            }
            if let Some(kind) = self.answers.ended() {
                self.answered(kind);
            }
        }
    }

    /// Adds the messages that the driver expects after the server's message of type `kind`.
    fn answered(&mut self, kind: u8) {
        match kind {
            b'C' | b'I' => {
                self.flight.committed.store(self.start == b"COMMIT\0", Ordering::Release);
                if self.unanswered > 1 {
                    self.incoming.extend_from_slice(READY);
                    self.unanswered -= 1;
                }
            }
            b'E' => {
                while self.unanswered > 1 {
                    self.incoming.extend_from_slice(READY);
                    self.incoming.extend_from_slice(SKIPPED);
                    self.unanswered -= 1;
                }
            }
            b'Z' => self.unanswered = 0,
            _ => {}
        }
    }
}

impl<S: AsyncWrite + Unpin> Merged<S> {
    /// Writes buffered bytes to the socket. A flight is written only when it is complete: a process
    /// that is suspended in the middle of a flight would hold its locks until it continues.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsent > 0 {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.outgoing.len() {
            let rest = &self.outgoing[self.written..];
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.outgoing.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Merged<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.taken == this.incoming.len() {
            this.incoming.clear();
            this.taken = 0;
            let mut chunk = std::mem::take(&mut this.chunk);
            let mut read = ReadBuf::new(&mut chunk);
            let polled = Pin::new(&mut this.inner).poll_read(cx, &mut read);
            let count = read.filled().len();
            this.receive(&chunk[..count]);
            this.chunk = chunk;
            ready!(polled)?;
            if count == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let rest = &this.incoming[this.taken..];
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        this.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Merged<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.outgoing.len() >= HIGH_WATER {
            ready!(this.poll_drain(cx))?;
        }
        this.send(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(contents.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), contents].concat()
    }

    /// Returns a stream with an unanswered flight of `statements` statements, and the bytes that
    /// the stream sends for it. The driver's bytes arrive in pieces of `piece` bytes.
    fn sent(statements: usize, piece: usize) -> (Merged<()>, Vec<u8>) {
        let flight = Arc::new(Flight::default());
        let mut stream = Merged::new((), flight.clone());
        flight.announce(statements);
        let one = [message(b'B', b"bind"), message(b'E', b"execute"), message(b'S', b"")].concat();
        for bytes in one.repeat(statements).chunks(piece) {
            stream.send(bytes);
        }
        let outgoing = std::mem::take(&mut stream.outgoing);
        (stream, outgoing)
    }

    fn received(stream: &mut Merged<()>, bytes: &[u8], piece: usize) -> Vec<u8> {
        for bytes in bytes.chunks(piece) {
            stream.receive(bytes);
        }
        std::mem::take(&mut stream.incoming)
    }

    #[test]
    fn a_flight_has_one_sync_and_every_statement_its_end() {
        let one = [message(b'B', b"bind"), message(b'E', b"execute")].concat();
        let sync = message(b'S', b"");
        let answer = [message(b'2', b""), message(b'D', b"Z\0\0\0\x05T"), message(b'C', b"x\0")];
        let (answer, end) = (answer.concat(), message(b'Z', b"I"));
        for piece in [1, 2, 3, 7, 1000] {
            let (mut stream, outgoing) = sent(3, piece);
            assert_eq!(outgoing, [one.repeat(3), sync.clone()].concat(), "{piece}");
            let bytes = [answer.repeat(3), end.clone()].concat();
            let expected = [&answer, READY, &answer, READY, &answer, &end].concat();
            assert_eq!(received(&mut stream, &bytes, piece), expected, "{piece}");
            // Messages after the flight are sent and received unchanged.
            stream.send(&sync);
            assert_eq!(std::mem::take(&mut stream.outgoing), sync, "{piece}");
            assert_eq!(received(&mut stream, &end, piece), end, "{piece}");
        }
    }

    /// The statement is COMMIT, which is sent before the flight is answered.
    #[test]
    fn a_statement_behind_a_flight_has_its_own_answer() {
        let (mut stream, _) = sent(2, 1000);
        let behind = [message(b'P', b"\0commit\0"), message(b'S', b"")].concat();
        stream.send(&behind);
        assert_eq!(std::mem::take(&mut stream.outgoing), behind);
        let (done, end) = (message(b'C', b"x\0"), message(b'Z', b"T"));
        let bytes = [&done[..], &done, &end, &done, &end].concat();
        let expected = [&done[..], READY, &done, &end, &done, &end].concat();
        assert_eq!(received(&mut stream, &bytes, 1000), expected);
    }

    #[test]
    fn a_failed_statement_fails_the_rest_of_its_flight() {
        let (done, failed) = (message(b'C', b"x\0"), message(b'E', b"boom"));
        let end = message(b'Z', b"E");
        let bytes = [&done[..], &failed, &end].concat();
        for piece in [1, 4, 1000] {
            let (mut stream, _) = sent(4, piece);
            let expected =
                [&done[..], READY, &failed, READY, SKIPPED, READY, SKIPPED, &end].concat();
            assert_eq!(received(&mut stream, &bytes, piece), expected, "{piece}");
        }
        let (mut stream, _) = sent(2, 1000);
        let expected = [&done[..], READY, &failed, &end].concat();
        assert_eq!(received(&mut stream, &bytes, 1000), expected, "the last statement fails");
    }

    #[test]
    fn a_commit_that_rolls_back_is_no_commit() {
        for (tag, committed) in [(&b"COMMIT\0"[..], true), (b"ROLLBACK\0", false)] {
            for piece in [1, 1000] {
                let (mut stream, _) = sent(1, piece);
                received(&mut stream, &message(b'C', tag), piece);
                assert_eq!(stream.flight.committed(), committed, "{tag:?}");
            }
        }
    }

    #[test]
    fn the_error_of_a_skipped_statement_is_well_formed() {
        let length = u32::from_be_bytes(SKIPPED[1..5].try_into().unwrap());
        assert_eq!(usize::try_from(length).unwrap(), SKIPPED.len() - 1);
    }
}
