//! What processes write down, outside of the store: one file for all of a test, one `write` for
//! each line, so that its order is the order in which things happened.
//!
//! A line that was written outlives its process; only a machine that loses its power would need
//! more than that.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before it is thought stuck. Generous: the machine may be busy.
const STUCK: Duration = Duration::from_secs(120);

/// How often somebody who waits looks again.
const LOOK: Duration = Duration::from_millis(5);

/// A journal, open for writing and reading.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

/// Who wrote, and what, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) by: String,
    pub(crate) what: String,
}

impl Line {
    /// What follows these words, in words of its own; `None` where it begins otherwise.
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

    /// All whole lines so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.path).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(by, what)| Line { by: by.to_owned(), what: what.to_owned() }).collect()
    }

    /// How many lines of somebody begin with these words.
    pub(crate) fn count(&self, by: &str, words: &str) -> usize {
        self.lines().iter().filter(|line| line.by == by && line.after(words).is_some()).count()
    }

    /// Waits until somebody has written so many lines that begin with these words.
    pub(crate) fn wait_for(&self, by: &str, words: &str, count: usize) {
        let told = || format!("{by} never wrote `{words}` {count} times:\n{}", self.told());
        wait_until(|| self.count(by, words) >= count, told);
    }

    /// The end of it, for people.
    pub(crate) fn told(&self) -> String {
        let lines = self.lines();
        let last = lines.iter().skip(lines.len().saturating_sub(60));
        last.map(|line| format!("  {} {}", line.by, line.what)).collect::<Vec<_>>().join("\n")
    }
}

/// Looks until something is so.
pub(crate) fn wait_until(mut so: impl FnMut() -> bool, told: impl Fn() -> String) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < STUCK, "{}", told());
        thread::sleep(LOOK);
    }
}
