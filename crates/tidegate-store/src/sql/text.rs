//! Text of a statement, written line by line.

/// Maximum length of a line.
const WIDTH: usize = 100;

/// Statement under construction.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Adds a line.
    pub(super) fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// Adds a list between `start` and `end`. A long list continues on the next line, below its
    /// first element.
    pub(super) fn list(&mut self, start: &str, items: impl IntoIterator<Item = String>, end: &str) {
        let mut line = start.to_owned();
        let mut items = items.into_iter().peekable();
        let mut is_first = true;
        while let Some(item) = items.next() {
            let item = item + if items.peek().is_some() { "," } else { end };
            let room = WIDTH.saturating_sub(line.len() + usize::from(!is_first));
            if is_first {
                line.push_str(&item);
            } else if item.len() <= room {
                line.push(' ');
                line.push_str(&item);
            } else {
                self.line(&line);
                line = " ".repeat(start.len()) + &item;
            }
            is_first = false;
        }
        self.line(&line);
    }

    /// Returns the statement.
    pub(super) fn finish(self) -> String {
        self.0.trim_end().to_owned()
    }
}
