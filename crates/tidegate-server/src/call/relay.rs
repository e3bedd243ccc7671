//! Streamed responses: relays the server-sent events of a called service as they arrive.

use reqwest::{
    Response, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING},
};
use serde_json::value::RawValue;
use tidegate::{Ctx, MAX_VALUE_BYTES, Result, StepError};

use super::Answer;

/// Whether a response is a stream of events.
pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Emits the data of each event as a chunk of the run. The data of the event named `output` becomes
/// the run's output; without that event the output is `null`. The end of the stream ends the call,
/// but is an error if it may be a broken connection.
pub(super) async fn relay(ctx: &Ctx, mut answer: Answer) -> Result<Box<RawValue>> {
    let mut events = Events::default();
    let (framed, mut output) = (is_framed(&answer.response), None);
    while let Some(bytes) = answer.chunk().await? {
        events.feed(&bytes)?;
        while let Some((name, data)) = events.next()? {
            let value = value(&data)?;
            if name == "output" {
                output = Some(value);
            } else {
                ctx.emit(value)?;
            }
        }
    }
    if !framed && (output.is_none() || events.is_cut()) {
        let message = "the connection was closed before the `output` event, and the response has \
                       neither a length nor chunks to tell its end from a broken connection";
        return Err(StepError::coded("CallFailed", message));
    }
    Ok(output.unwrap_or_else(|| RawValue::NULL.to_owned()))
}

/// Whether the end of a response can be distinguished from a broken connection: the response has a
/// length or is chunked, or the protocol has frames.
fn is_framed(response: &Response) -> bool {
    let headers = response.headers();
    let framed = headers.contains_key(TRANSFER_ENCODING) || headers.contains_key(CONTENT_LENGTH);
    framed || response.version() >= Version::HTTP_2
}

/// Returns an event's data as JSON: unchanged if it parses as JSON, otherwise as a JSON string.
fn value(data: &str) -> Result<Box<RawValue>> {
    if let Ok(json) = serde_json::from_str(data) {
        return Ok(json);
    }
    Ok(RawValue::from_string(serde_json::to_string(data)?)?)
}

/// Incremental parser of server-sent events. An event is some lines and an empty line.
#[derive(Debug, Default)]
struct Events {
    unread: Vec<u8>,
    name: String,
    data: Option<String>,
}

impl Events {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.unread.extend_from_slice(bytes);
        if self.unread.len() + self.data.as_ref().map_or(0, String::len) <= MAX_VALUE_BYTES {
            return Ok(());
        }
        let message = format!("one event of the response has more than {MAX_VALUE_BYTES} bytes");
        Err(StepError::coded("AnswerTooLarge", message).fatal())
    }

    /// Whether an event is incomplete: it has begun and not ended.
    fn is_cut(&self) -> bool {
        !self.unread.is_empty() || self.data.is_some()
    }

    /// Returns the name and the data of the next complete event.
    fn next(&mut self) -> Result<Option<(String, String)>> {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8(line)
                .map_err(|_| StepError::coded("BadAnswer", "the response is not UTF-8").fatal())?;
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let (name, data) = (std::mem::take(&mut self.name), self.data.take());
                if let Some(data) = data {
                    return Ok(Some((name, data)));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (field, &mut self.data) {
                ("event", _) => value.clone_into(&mut self.name),
                ("data", Some(data)) => *data = format!("{data}\n{value}"),
                ("data", none) => *none = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::Events;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let wire = "event: a\r\ndata: 1\r\n\r\n: keep-alive\n\ndata:two\ndata: lines\nid: 7\n\nevent: x\n\n\
                    data: grün\n\ndata: not whole";
        let expected = [("a", "1"), ("", "two\nlines"), ("", "grün")];
        for size in 1..wire.len() {
            let (mut events, mut seen) = (Events::default(), Vec::new());
            for piece in wire.as_bytes().chunks(size) {
                events.feed(piece).unwrap();
                while let Some(event) = events.next().unwrap() {
                    seen.push(event);
                }
            }
            let seen: Vec<_> = seen.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(seen, expected, "parsed in pieces of {size} bytes");
        }
    }
}
