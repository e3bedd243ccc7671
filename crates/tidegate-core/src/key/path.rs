//! Key paths: dotted paths into the event's data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum number of names in one path. Each name costs a scan, and a deeper key is probably a
/// mistake.
pub const MAX_NAMES: usize = 64;

/// Maximum number of characters in one path, dots included.
pub const MAX_CHARS: usize = 256;

/// Path to one field, such as `user.id` or `items.0.id`.
///
/// A path is not an expression: `a + b` is the path of a field with the name `a + b`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Spelling", into = "Spelling")]
pub struct Path(Vec<String>);

/// Reason why a text or a list of names is not a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is empty.
    #[error("path must name a field such as `user.id`, got an empty path")]
    Empty,
    /// The path has an empty name: two consecutive dots, a dot at an end, or an empty text in a
    /// list.
    #[error("path must have a name between its dots, got `{0}`")]
    EmptyName(String),
    /// The path has more names than [`MAX_NAMES`].
    #[error("path must have at most {MAX_NAMES} names, got {0}")]
    TooManyNames(usize),
    /// The path has more characters than [`MAX_CHARS`].
    #[error("path must have at most {MAX_CHARS} characters, got {0}")]
    TooLong(usize),
    /// The value is neither a text nor a list of texts.
    #[error("path must be a text or an array of names, got `{0}`")]
    NotAPath(String),
}

impl Path {
    /// Parses a dotted path.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        Path::from_names(text.split('.').map(str::to_owned).collect())
    }

    /// Creates a path from separate names, which may contain dots.
    pub fn from_names(names: Vec<String>) -> Result<Path, PathError> {
        if names.is_empty() {
            return Err(PathError::Empty);
        }
        if names.len() > MAX_NAMES {
            return Err(PathError::TooManyNames(names.len()));
        }
        let chars = names.iter().map(|name| name.chars().count()).sum::<usize>() + names.len() - 1;
        if chars > MAX_CHARS {
            return Err(PathError::TooLong(chars));
        }
        if names.iter().any(String::is_empty) {
            return Err(PathError::EmptyName(names.join(".")));
        }
        Ok(Path(names))
    }

    /// Reads a path in a definition: a string, or an array of names.
    pub fn from_value(value: &serde_json::Value) -> Result<Path, PathError> {
        match Spelling::deserialize(value) {
            Ok(spelling) => spelling.try_into(),
            Err(_) => Err(PathError::NotAPath(value.to_string())),
        }
    }

    /// Returns the names, outermost first; there is at least one.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Spelling::from(self.clone()) {
            Spelling::Dotted(text) => f.write_str(&text),
            Spelling::Names(names) => write!(f, "{names:?}"),
        }
    }
}

/// JSON form of a path: a dotted text, or a list of names if a name contains a dot.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelling {
    Dotted(String),
    Names(Vec<String>),
}

impl From<Path> for Spelling {
    fn from(Path(names): Path) -> Spelling {
        if names.iter().any(|name| name.contains('.')) {
            Spelling::Names(names)
        } else {
            Spelling::Dotted(names.join("."))
        }
    }
}

impl TryFrom<Spelling> for Path {
    type Error = PathError;

    fn try_from(spelling: Spelling) -> Result<Path, PathError> {
        match spelling {
            Spelling::Dotted(text) => Path::parse(&text),
            Spelling::Names(names) => Path::from_names(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_written_back_as_it_can_be_read() {
        let values = [json!("a"), json!("user.id"), json!("items.0.id"), json!(["a.b", "c"])];
        for value in values {
            let path = Path::from_value(&value).unwrap();
            assert_eq!(serde_json::to_value(&path).unwrap(), value);
        }
        let plain = Path::from_value(&json!(["a", "b"])).unwrap();
        assert_eq!(serde_json::to_value(plain).unwrap(), json!("a.b"));
    }

    // spec B54
    #[test]
    fn what_looks_like_an_expression_is_a_plain_path() {
        let path = Path::parse("event.data.x == 1").unwrap();
        assert_eq!(path.names(), ["event", "data", "x == 1"]);
        assert_eq!(Path::parse("a + b").unwrap().names(), ["a + b"]);
    }

    #[test]
    fn a_path_that_names_nothing_is_refused() {
        let values = [
            json!(""),
            json!([]),
            json!("a..b"),
            json!(".a"),
            json!("a."),
            json!(["a", ""]),
            json!(vec!["a"; 65]),
            json!("é".repeat(257)),
            json!(7),
            json!(["a", 1]),
            json!(null),
        ];
        let errors = values.map(|value| Path::from_value(&value).unwrap_err().to_string());
        expect![[r#"
            path must name a field such as `user.id`, got an empty path
            path must name a field such as `user.id`, got an empty path
            path must have a name between its dots, got `a..b`
            path must have a name between its dots, got `.a`
            path must have a name between its dots, got `a.`
            path must have a name between its dots, got `a.`
            path must have at most 64 names, got 65
            path must have at most 256 characters, got 257
            path must be a text or an array of names, got `7`
            path must be a text or an array of names, got `["a",1]`
            path must be a text or an array of names, got `null`"#]]
        .assert_eq(&errors.join("\n"));
        assert!(Path::parse(&"é".repeat(256)).is_ok());
        assert!(Path::parse(&["a"; 64].join(".")).is_ok());
    }
}
