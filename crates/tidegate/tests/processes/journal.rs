//! Journal of the processes, outside of the store: one file per test and one `write` per line, so
//! that the lines are in the order of the events.
//!
//! A written line survives the death of its process. A loss of power is not tested.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Time without progress after which a test fails. It is long, because the machine may be busy.
const STUCK: Duration = Duration::from_secs(120);

/// Interval of polling.
const LOOK: Duration = Duration::from_millis(5);

/// A journal that is open for writing and reading.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

/// A line: the process that wrote it, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) by: String,
    pub(crate) what: String,
}

impl Line {
    /// Returns the words after this prefix; `None` if the line starts with other words.
    pub(crate) fn after(&self, words: &str) -> Option<Vec<&str>> {
        let rest = self.what.strip_prefix(words)?;
        (rest.is_empty() || rest.starts_with(' ')).then(|| rest.split_whitespace().collect())
    }
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Self { file, path: path.to_owned() }
    }

    /// Writes a line.
    pub(crate) fn note(&self, by: &str, what: &str) {
        (&self.file).write_all(format!("{by} {what}\n").as_bytes()).unwrap();
    }

    /// Returns all complete lines so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.path).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(by, what)| Line { by: by.to_owned(), what: what.to_owned() }).collect()
    }

    /// Returns the number of lines of a writer that start with these words.
    pub(crate) fn count(&self, by: &str, words: &str) -> usize {
        self.lines().iter().filter(|line| line.by == by && line.after(words).is_some()).count()
    }

    /// Waits until a writer has written this many lines that start with these words.
    pub(crate) fn wait_for(&self, by: &str, words: &str, count: usize) {
        let answer =
            || format!("process {by} did not write `{words}` {count} times:\n{}", self.told());
        wait_until(|| self.count(by, words) >= count, answer);
    }

    /// Returns the last lines as text, for error messages.
    pub(crate) fn told(&self) -> String {
        let lines = self.lines();
        let last = lines.iter().skip(lines.len().saturating_sub(60));
        last.map(|line| format!("  {} {}", line.by, line.what)).collect::<Vec<_>>().join("\n")
    }
}

/// Polls until a condition holds.
pub(crate) fn wait_until(mut so: impl FnMut() -> bool, answer: impl Fn() -> String) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < STUCK, "{}", answer());
        thread::sleep(LOOK);
    }
}
