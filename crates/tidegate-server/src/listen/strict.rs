//! Protection against request smuggling: rejects ambiguous request heads before the HTTP parser
//! sees them.
//!
//! The parser accepts a line that ends in LF alone, ignores `Content-Length` beside
//! `Transfer-Encoding`, and uses the first of two `Host` headers. A proxy in front may interpret
//! them differently, and then one request can hide inside another. RFC 9112 requires 400 in all
//! three cases.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that scans its incoming bytes before the HTTP parser reads them.
#[derive(Debug)]
pub(super) struct Strict<S> {
    stream: S,
    scan: Scan,
    refused: bool,
}

impl<S> Strict<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, scan: Scan::default(), refused: false }
    }
}

/// Bytes that are passed to the parser instead of an ambiguous head: the parser answers them with
/// 400 and closes the connection.
const REFUSED: &[u8] = b"\0";

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.refused {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if self.scan.feed(&buf.filled()[before..]).is_err() {
            self.refused = true;
            buf.set_filled(before);
            buf.put_slice(REFUSED);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
}

/// Maximum length of a line that is scanned. The HTTP parser itself rejects a longer head.
const MAX_LINE: usize = 64 * 1024;

/// Error: the request head is ambiguous.
#[derive(Debug, PartialEq, Eq)]
struct Ambiguous;

/// Position of the scanner in the stream of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    RequestLine,
    Header,
    Body(u64),
    ChunkSize,
    /// Inside a chunk, or in the line end after it.
    Chunk(u64),
    Trailer,
    /// After input that the HTTP parser rejects itself: nothing more is scanned.
    Lost,
}

/// Scanner that follows the framing of requests, as far as the rules need it.
#[derive(Debug, Default)]
struct Scan {
    place: Place,
    line: Vec<u8>,
    hosts: u32,
    needs_host: bool,
    length: Option<u64>,
    encoded: bool,
}

impl Scan {
    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Ambiguous> {
        while !bytes.is_empty() {
            bytes = match self.place {
                Place::Lost => return Ok(()),
                Place::Body(left) => self.skip(bytes, left, Place::Body, Place::RequestLine),
                Place::Chunk(left) => self.skip(bytes, left, Place::Chunk, Place::ChunkSize),
                Place::RequestLine | Place::Header | Place::ChunkSize | Place::Trailer => {
                    self.feed_line(bytes)?
                }
            };
        }
        Ok(())
    }

    /// Skips bytes of a body. Returns the bytes after them.
    fn skip<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        more: fn(u64) -> Place,
        then: Place,
    ) -> &'a [u8] {
        let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let left = left - here as u64;
        self.place = if left == 0 { then } else { more(left) };
        &bytes[here..]
    }

    /// Collects a line, and parses it when it is complete. Returns the bytes after it.
    fn feed_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Ambiguous> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.line.extend_from_slice(bytes);
            if self.line.len() > MAX_LINE {
                self.place = Place::Lost;
            }
            return Ok(&[]);
        };
        self.line.extend_from_slice(&bytes[..end]);
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").ok_or(Ambiguous)?;
        self.read_line(line)?;
        Ok(&bytes[end + 1..])
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), Ambiguous> {
        self.place = match self.place {
            // Empty lines before a request are ignored; an empty line after trailers ends the
            // request.
            Place::RequestLine | Place::Trailer if line.is_empty() => Place::RequestLine,
            Place::RequestLine => {
                let needs_host = line.ends_with(b" HTTP/1.1");
                *self = Self { needs_host, ..Self::default() };
                Place::Header
            }
            Place::Header if line.is_empty() => self.end_head()?,
            Place::Header => self.read_header(line),
            Place::ChunkSize => chunk(line),
            other @ (Place::Trailer | Place::Body(_) | Place::Chunk(_) | Place::Lost) => other,
        };
        Ok(())
    }

    fn read_header(&mut self, line: &[u8]) -> Place {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts += 1;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.encoded = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let value = std::str::from_utf8(value.get(1..).unwrap_or_default());
            let Some(length) = value.ok().and_then(|value| value.trim().parse().ok()) else {
                return Place::Lost;
            };
            self.length = Some(length);
        }
        Place::Header
    }

    /// Applies the rules to a complete head. Returns the position after it.
    fn end_head(&self) -> Result<Place, Ambiguous> {
        let hosts = if self.needs_host { self.hosts == 1 } else { self.hosts <= 1 };
        match (self.length, self.encoded) {
            _ if !hosts => Err(Ambiguous),
            (Some(_), true) => Err(Ambiguous),
            (None, true) => Ok(Place::ChunkSize),
            (Some(length), false) if length > 0 => Ok(Place::Body(length)),
            (_, false) => Ok(Place::RequestLine),
        }
    }
}

/// Returns the position after a chunk's first line.
fn chunk(line: &[u8]) -> Place {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let size = std::str::from_utf8(digits).ok();
    match size.and_then(|size| u64::from_str_radix(size.trim(), 16).ok()) {
        Some(0) => Place::Trailer,
        Some(size) => size.checked_add(2).map_or(Place::Lost, Place::Chunk),
        None => Place::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::{Ambiguous, Place, Scan};

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Scans a text in one piece and in pieces of every size; the results must be equal.
    fn scan(text: &str) -> Result<Place, Ambiguous> {
        let read = |size: usize| {
            let mut scan = Scan::default();
            for piece in text.as_bytes().chunks(size) {
                scan.feed(piece)?;
            }
            Ok(scan.place)
        };
        let whole = read(text.len());
        for size in 1..text.len() {
            assert_eq!(read(size), whole, "the result differs in pieces of {size} bytes: {text:?}");
        }
        whole
    }

    #[test]
    fn plain_requests_pass_one_after_another() {
        for text in [
            GET,
            "\r\nGET / HTTP/1.0\r\n\r\n",
            "POST / HTTP/1.1\r\nHOST: a\r\nContent-Length: 4\r\n\r\na\nb\n",
            "POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             5;x=1\r\na\nb\nc\r\nA\r\n0123456789\r\n0\r\nContent-Length: 3\r\n\r\n",
        ] {
            assert_eq!(scan(text), Ok(Place::RequestLine), "{text:?}");
            assert_eq!(scan(&format!("{text}{GET}")), Ok(Place::RequestLine), "valid: {text:?}");
            let hidden = format!("{text}GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n");
            assert_eq!(
                scan(&hidden),
                Err(Ambiguous),
                "two host headers after {text:?} must be rejected"
            );
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n3\n",
        ] {
            assert_eq!(scan(text), Err(Ambiguous), "{text:?}");
        }
    }
}
