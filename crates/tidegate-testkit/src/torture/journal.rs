//! Worker journals: how they are written, with one `write` per line, and how they are read.
//!
//! The end of a drive is written before it is reported: while a drive is open in the journal, the
//! worker certainly holds the run. So if two drives overlap in the journals, they really
//! overlapped.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::Mutex,
};

use super::micros;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The worker has got the lease, and the drive begins.
    Start {
        /// The run.
        run: String,
        /// The key of the gate that the run holds.
        key: String,
        /// The units of the limit that the run holds.
        units: usize,
        /// The lease's fence.
        fence: i64,
    },
    /// A step is executed.
    Step {
        /// The run.
        run: String,
        /// The step.
        id: String,
        /// The lease's fence.
        fence: i64,
    },
    /// The drive has ended; the worker reports it only after this line.
    End {
        /// The run.
        run: String,
        /// The lease's fence.
        fence: i64,
    },
    /// The store has confirmed the end of the run, which is durable and final.
    Ended {
        /// The run.
        run: String,
        /// Its final status.
        state: String,
    },
    /// An event is about to be posted.
    Post {
        /// The `dedupeId` of the event.
        id: String,
        /// The key of the event.
        key: String,
    },
    /// The post was answered: the event is durable.
    Posted {
        /// The `dedupeId` of the event.
        id: String,
    },
    /// A heartbeat has succeeded.
    Beat {
        /// The time at which the heartbeat was sent.
        sent: i64,
    },
    /// The worker stops by itself, because its heartbeats failed or the store returned an error.
    Stop {
        /// The reason.
        reason: String,
    },
}

impl Note {
    fn write(&self) -> String {
        match self {
            Self::Start { run, key, units, fence } => format!("start {run} {key} {fence} {units}"),
            Self::Step { run, id, fence } => format!("step {run} {id} {fence}"),
            Self::End { run, fence } => format!("end {run} {fence}"),
            Self::Ended { run, state } => format!("ended {run} {state}"),
            Self::Post { id, key } => format!("post {id} {key}"),
            Self::Posted { id } => format!("posted {id}"),
            Self::Beat { sent } => format!("beat {sent}"),
            Self::Stop { reason } => format!("stop {}", reason.replace('\n', " ")),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ')?;
        let words: Vec<&str> = rest.split(' ').collect();
        let text = |at: usize| words.get(at).map(|word| (*word).to_owned());
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        Some(match word {
            "start" => {
                let units = words.get(3).and_then(|word| word.parse().ok())?;
                Self::Start { run: text(0)?, key: text(1)?, units, fence: number(2)? }
            }
            "step" => Self::Step { run: text(0)?, id: text(1)?, fence: number(2)? },
            "end" => Self::End { run: text(0)?, fence: number(1)? },
            "ended" => Self::Ended { run: text(0)?, state: text(1)? },
            "post" => Self::Post { id: text(0)?, key: text(1)? },
            "posted" => Self::Posted { id: text(0)? },
            "beat" => Self::Beat { sent: number(0)? },
            "stop" => Self::Stop { reason: rest.to_owned() },
            _ => return None,
        })
    }
}

/// A journal open for writing.
#[derive(Debug)]
pub struct Journal(Mutex<File>);

impl Journal {
    /// Opens a journal for appending.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self(Mutex::new(OpenOptions::new().append(true).create(true).open(path)?)))
    }

    /// Writes one line, with the current time.
    pub fn note(&self, note: &Note) {
        let mut file = self.0.lock().expect("no code panics while it holds this lock");
        let line = format!("{} {}\n", micros(), note.write());
        file.write_all(line.as_bytes()).expect("the journal can be written");
    }
}

/// Reads a journal. An incomplete last line of a killed process is left out.
pub fn read(text: &str) -> Vec<(i64, Note)> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |line: &str| {
        let (at, note) = line.split_once(' ')?;
        Some((at.parse().ok()?, Note::read(note)?))
    };
    whole.lines().map(|text| line(text).unwrap_or_else(|| panic!("no note: `{text}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let notes = [
            Note::Start { run: "run_1".into(), key: "k1".into(), units: 2, fence: 3 },
            Note::Step { run: "run_1".into(), id: "a".into(), fence: 3 },
            Note::End { run: "run_1".into(), fence: 3 },
            Note::Ended { run: "run_1".into(), state: "failed".into() },
            Note::Post { id: "p".into(), key: "k1".into() },
            Note::Posted { id: "p".into() },
            Note::Beat { sent: 7 },
            Note::Stop { reason: "it could not renew".into() },
        ];
        let lines: Vec<_> = notes.iter().map(|note| format!("5 {}", note.write())).collect();
        let expected: Vec<_> = notes.into_iter().map(|note| (5, note)).collect();
        assert_eq!(read(&format!("{}\n6 sta", lines.join("\n"))), expected);
    }
}
