//! Scanner that finds one value in valid JSON text.
//!
//! It uses no recursion and builds no tree, because the text may be large and only one value of it
//! is needed.

/// Returns the nesting depth of objects and arrays; a plain scalar has depth 0.
pub(super) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut cursor = Cursor { text, at: 0 };
    while let Some(byte) = cursor.peek() {
        match byte {
            b'"' => cursor.skip_string(),
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                cursor.at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                cursor.at += 1;
            }
            _ => cursor.at += 1,
        }
    }
    deepest
}

/// Returns the text of the value at the path `names`, without spaces around it.
pub(crate) fn select<'a>(text: &'a str, names: &[String]) -> Option<&'a str> {
    let mut value = text.trim_matches([' ', '\t', '\n', '\r']);
    for name in names {
        value = match value.as_bytes().first()? {
            b'{' => member(value, name)?,
            b'[' => element(value, index(name)?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Returns the value of the last member with this name.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut cursor = Cursor { text: object, at: 1 };
    let mut found = None;
    while cursor.peek_token()? == b'"' {
        let key = cursor.take_value();
        cursor.skip_token(b':');
        let value = cursor.take_value();
        if is_name(key, name) {
            found = Some(value);
        }
        cursor.skip_token(b',');
    }
    found
}

fn element(array: &str, index: usize) -> Option<&str> {
    let mut cursor = Cursor { text: array, at: 1 };
    for _ in 0..index {
        if cursor.peek_token()? == b']' {
            return None;
        }
        cursor.take_value();
        cursor.skip_token(b',');
    }
    (cursor.peek_token()? != b']').then(|| cursor.take_value())
}

/// Whether a quoted key decodes to `name`.
pub(super) fn is_name(quoted: &str, name: &str) -> bool {
    if quoted.contains('\\') {
        return serde_json::from_str::<String>(quoted).is_ok_and(|key| key == name);
    }
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(name)
}

/// Parses an array index. Each index has one spelling: `01` and `+1` are not indexes.
pub(crate) fn index(name: &str) -> Option<usize> {
    let index = name.parse::<usize>().ok()?;
    (index.to_string() == name).then_some(index)
}

pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and returns the next byte, without moving past it.
    pub(crate) fn peek_token(&mut self) -> Option<u8> {
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.peek()
    }

    pub(crate) fn skip_token(&mut self, token: u8) {
        if self.peek_token() == Some(token) {
            self.at += 1;
        }
    }

    /// Returns the next value of any type and moves past it.
    pub(crate) fn take_value(&mut self) -> &'a str {
        let first = self.peek_token();
        let start = self.at;
        match first {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => self.skip_nested(),
            _ => self.skip_plain(),
        }
        &self.text[start..self.at]
    }

    /// Moves past the string that begins here.
    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => return,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at = self.text.len();
    }

    /// Moves past the object or array that begins here.
    fn skip_nested(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Moves past the number or word that begins here.
    fn skip_plain(&mut self) {
        while self.peek().is_some_and(|byte| !b",]} \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }
}
