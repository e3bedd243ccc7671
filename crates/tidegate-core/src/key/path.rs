//! Key paths: dotted paths into the event's data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum number of names in one path. Deeper keys are a sign of a mistake, and each name costs a
/// scan.
pub const MAX_NAMES: usize = 64;

/// Maximum number of characters in one path, dots included.
pub const MAX_CHARS: usize = 256;

/// Path to one field, such as `user.id` or `items.0.id`.
///
/// A path is not an expression: `a + b` names a field called `a + b`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Spelling", into = "Spelling")]
pub struct Path(Vec<String>);

/// Reason why a text or a list of names is not a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There is no name at all.
    #[error("path must name a field such as `user.id`, got an empty one")]
    Empty,
    /// Two consecutive dots, a dot at an end, or an empty name in a list.
    #[error("path must have a name between its dots, got `{0}`")]
    EmptyName(String),
    /// More names than [`MAX_NAMES`].
    #[error("path must have at most {MAX_NAMES} names, got {0}")]
    TooManyNames(usize),
    /// More characters than [`MAX_CHARS`].
    #[error("path must have at most {MAX_CHARS} characters, got {0}")]
    TooLong(usize),
    /// Neither a text nor a list of texts.
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

/// JSON form of a path: dotted wherever that is unambiguous.
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
            path must name a field such as `user.id`, got an empty one
            path must name a field such as `user.id`, got an empty one
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
