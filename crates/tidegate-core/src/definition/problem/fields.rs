//! The reader of one object in a definition. It reports problems and continues reading.

use serde_json::{Map, Value};

use super::{Code, Kind, MAX_DURATION_MS, MAX_NAME_CHARS, Problems, nearest};
use crate::{
    expr::{Formula, Mode},
    flow::{
        cost::Cost,
        key_source::{self, KeySource},
    },
    key::Path,
};

/// Error value after a failed read. The problem itself is already in the list of problems.
#[derive(Debug)]
pub(crate) struct Reported(pub(super) ());

/// One object, with its path in the definition.
///
/// A caller reads all fields before it returns the first error, so that every problem is found.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    at: String,
    map: &'a Map<String, Value>,
    problems: &'a mut Problems,
}

impl<'a> Fields<'a> {
    /// Opens the object at `at`, and reports its unknown fields.
    pub(crate) fn open(
        value: &'a Value,
        at: &str,
        known: &[&str],
        problems: &'a mut Problems,
    ) -> Result<Fields<'a>, Reported> {
        let Some(map) = value.as_object() else {
            let place = if at.is_empty() { "definition" } else { at };
            let known = nearest::list(known);
            let message = format!("must be an object of {known}, got {}", shorten(value));
            return Err(problems.error(Code::WrongType, place, message));
        };
        let fields = Fields { at: at.to_owned(), map, problems };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let fix = nearest::suggest(name, known);
            let field = fields.field(name);
            fields.problems.error(Code::UnknownField, &field, format!("is not known: {fix}"));
        }
        Ok(fields)
    }

    /// Reads an optional whole number of at least 1.
    pub(crate) fn optional_count(&mut self, name: &str) -> Result<Option<u32>, Reported> {
        let number = self.number(name, 1, u64::from(u32::MAX))?;
        Ok(number.map(|number| u32::try_from(number).expect("number() checked the range")))
    }

    /// Reads a required duration of 1 ms to 365 days.
    pub(crate) fn duration(&mut self, name: &str) -> Result<u64, Reported> {
        let rule = "a whole number of milliseconds, at least 1";
        self.optional_duration(name)?.ok_or_else(|| self.missing(name, rule))
    }

    /// Reads an optional duration of 1 ms to 365 days.
    pub(crate) fn optional_duration(&mut self, name: &str) -> Result<Option<u64>, Reported> {
        self.number(name, 1, MAX_DURATION_MS)
    }

    /// Reads an optional whole number from `least` to `most`.
    ///
    /// Null is an error here and does not count as absent: JSON writers write infinity and NaN as
    /// null.
    pub(crate) fn number(
        &mut self,
        name: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, Reported> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        let Some(float) = value.as_f64() else {
            return Err(self.wrong_type(name, "a whole number", value));
        };
        match whole(value) {
            Some(number) if number < least => Err(self.too_small(name, least, value)),
            Some(number) if number > most => Err(self.too_large(name, most, value)),
            Some(number) => Ok(Some(number)),
            None if float < 0.0 => Err(self.too_small(name, least, value)),
            None if float.fract() != 0.0 => Err(self.wrong_type(name, "a whole number", value)),
            None => Err(self.too_large(name, most, value)),
        }
    }

    /// Reads an optional whole number from `least` to `most`, which may be negative.
    pub(crate) fn integer(
        &mut self,
        name: &str,
        least: i64,
        most: i64,
    ) -> Result<Option<i64>, Reported> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        if least < 0 && value.as_f64().is_some_and(|float| float < 0.0) {
            let number = value.as_i64().or_else(|| {
                let float = value.as_f64().filter(|float| float.fract() == 0.0)?;
                format!("{float:.0}").parse().ok()
            });
            return match number {
                Some(number) if number >= least => Ok(Some(number)),
                None if value.as_f64().is_some_and(|float| float.fract() != 0.0) => {
                    Err(self.wrong_type(name, "a whole number", value))
                }
                Some(_) | None => {
                    let rule = format!("must be at least {least}, got {value}");
                    Err(self.error(Code::OutOfRange, name, rule))
                }
            };
        }
        let number = self.number(name, u64::try_from(least).unwrap_or(0), most.unsigned_abs())?;
        Ok(number.map(|number| i64::try_from(number).expect("number() checked the range")))
    }

    /// Reads an optional `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Reported> {
        let Some(value) = self.map.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong_type(name, "true or false", value))
    }

    /// Reads an optional text; null counts as absent.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<&'a str>, Reported> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong_type(name, "a text", value))
    }

    /// Reads an optional text of 1 to 256 characters. Control characters are refused, because names
    /// are used in headers, paths and logs.
    pub(crate) fn name(&mut self, name: &str) -> Result<Option<&'a str>, Reported> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.chars().count() {
            1..=MAX_NAME_CHARS if text.contains(char::is_control) => {
                let shown = text.escape_debug();
                let rule = format!("must not contain control characters, got `{shown}`");
                Err(self.error(Code::BadName, name, rule))
            }
            1..=MAX_NAME_CHARS => Ok(Some(text)),
            chars => {
                let rule = format!("must have 1 to {MAX_NAME_CHARS} characters, got {chars}");
                Err(self.error(Code::BadName, name, rule))
            }
        }
    }

    /// Reads an optional word out of a list of known words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Reported> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => Err(self.unknown_value(name, text, &known)),
        }
    }

    /// Reads the optional path of a key; null counts as absent.
    ///
    /// In an action the path begins at the request, otherwise at the event.
    pub(crate) fn path(&mut self, name: &str) -> Result<Option<Path>, Reported> {
        self.get(name).map(|value| self.path_of(name, value)).transpose()
    }

    /// Reads a path. `name` is the place of the value in this object.
    pub(crate) fn path_of(&mut self, name: &str, value: &Value) -> Result<Path, Reported> {
        let path = Path::from_value(value).map_err(|error| {
            let message = error.to_string();
            let rule = message.strip_prefix("path ").unwrap_or(&message);
            self.error(Code::BadPath, name, rule)
        })?;
        let requested = matches!(self.problems.kind, Kind::Flow | Kind::Action);
        if requested && !begins_at_request(&path) {
            let roots = "must begin at the request: `session`, `user`, `input.…` or `metadata.…`";
            return Err(self.error(Code::BadPath, name, format!("{roots}, got `{path}`")));
        }
        Ok(path)
    }

    /// Reads the optional source of a key: a path, `{"paths": […]}` or `{"expr": "…"}`.
    pub(crate) fn key(&mut self, name: &str) -> Result<Option<KeySource>, Reported> {
        match self.get(name) {
            Some(value) if value.is_object() => {
                let at = self.field(name);
                KeySource::read(value, &at, self.problems).map(Some)
            }
            Some(_) | None => Ok(self.path(name)?.map(KeySource::Path)),
        }
    }

    /// Reads an optional expression. It has the variable `event`, and in an action `request`.
    pub(crate) fn formula(&mut self, name: &str) -> Result<Option<Formula>, Reported> {
        let variable = match self.problems.kind {
            Kind::Workflow | Kind::Pool => key_source::EVENT,
            Kind::Flow | Kind::Action => key_source::REQUEST,
        };
        self.formula_with(name, &[variable])
    }

    /// Reads an optional expression with these variables: a text, or `{"lenient": text}`.
    pub(crate) fn formula_with(
        &mut self,
        name: &str,
        known: &[&str],
    ) -> Result<Option<Formula>, Reported> {
        if let Some(value @ Value::Object(_)) = self.get(name) {
            let at = self.field(name);
            let mut fields = Fields::open(value, &at, &["lenient"], self.problems)?;
            let Some(text) = fields.text("lenient")? else {
                return Err(fields.missing("lenient", "an expression"));
            };
            return fields.parse_formula("lenient", text, Mode::Lenient, known).map(Some);
        }
        let Some(text) = self.text(name)? else { return Ok(None) };
        self.parse_formula(name, text, Mode::Strict, known).map(Some)
    }

    fn parse_formula(
        &mut self,
        name: &str,
        text: &str,
        mode: Mode,
        known: &[&str],
    ) -> Result<Formula, Reported> {
        let formula = Formula::parse(text, mode).map_err(|error| {
            let message = format!("has an error in `{}`: {error}", shorten_text(text));
            self.error(Code::from(error.kind), name, message)
        })?;
        if let Some(unknown) = formula.expr().variables().into_iter().find(|it| !known.contains(it))
        {
            let fix = nearest::suggest(unknown, known);
            let message = format!("has no variable `{unknown}`: {fix}");
            return Err(self.error(Code::ExpressionUnknownVariable, name, message));
        }
        if let Err(error) = formula.expr().check() {
            let message = format!("fails for every event in `{}`: {error}", shorten_text(text));
            return Err(self.error(Code::from(error.kind), name, message));
        }
        Ok(formula)
    }

    /// Returns the raw value of a field; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Reports that a required field is absent. `rule` says what the field must be.
    pub(crate) fn missing(&mut self, name: &str, rule: &str) -> Reported {
        self.error(Code::MissingField, name, format!("is required: {rule}"))
    }

    /// Reports an unknown word.
    pub(crate) fn unknown_value(&mut self, name: &str, text: &str, known: &[&str]) -> Reported {
        let fix = nearest::suggest(text, known);
        self.error(Code::UnknownValue, name, format!("has no value `{text}`: {fix}"))
    }

    /// Reports a problem of one field.
    pub(crate) fn error(&mut self, code: Code, name: &str, message: impl Into<String>) -> Reported {
        let field = self.field(name);
        self.problems.error(code, &field, message)
    }

    /// Reports a `maxWaitMs` that is shorter than `periodMs`.
    pub(crate) fn check_max_wait(&mut self, period_ms: u64, max_wait_ms: Option<u64>) {
        if let Some(wait) = max_wait_ms.filter(|wait| *wait < period_ms) {
            let rule = format!("must be at least periodMs ({period_ms}), got {wait}");
            self.error(Code::OutOfRange, "maxWaitMs", rule);
        }
    }

    /// Reports a cost that no run could ever take.
    pub(crate) fn check_cost(&mut self, cost: Option<&Cost>, limit: u32, name: &str) {
        if let Some(Cost::Units(cost)) = cost
            && *cost > limit
        {
            let rule = format!("must be at most the {name} ({limit}), got {cost}");
            self.error(Code::OutOfRange, "cost", rule);
        }
    }

    /// Returns the problems, for a reader of a nested value.
    pub(crate) fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// Returns the path of a field in the whole definition.
    pub(crate) fn field(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    fn wrong_type(&mut self, name: &str, expected: &str, value: &Value) -> Reported {
        let message = format!("must be {expected}, got {}", shorten(value));
        self.error(Code::WrongType, name, message)
    }

    fn too_small(&mut self, name: &str, least: u64, value: &Value) -> Reported {
        self.error(Code::OutOfRange, name, format!("must be at least {least}, got {value}"))
    }

    fn too_large(&mut self, name: &str, most: u64, value: &Value) -> Reported {
        let days = if most == MAX_DURATION_MS { " (365 days)" } else { "" };
        self.error(Code::OutOfRange, name, format!("must be at most {most}{days}, got {value}"))
    }
}

/// Returns a whole number, also one that is spelled `5.0`.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    // Formats and parses the float, because a cast would round silently.
    let float = value.as_f64()?;
    format!("{float:.0}").parse().ok().filter(|_| float >= 0.0 && float.fract() == 0.0)
}

fn begins_at_request(path: &Path) -> bool {
    match path.names() {
        [root] => matches!(root.as_str(), "session" | "user" | "input"),
        [root, ..] => matches!(root.as_str(), "input" | "metadata"),
        [] => false,
    }
}

/// Returns the first characters of a value, so that the author can find it in the definition.
pub(crate) fn shorten(value: &Value) -> String {
    shorten_text(&value.to_string())
}

/// As [`shorten`], for the text of a value.
pub(crate) fn shorten_text(text: &str) -> String {
    let cut = text.floor_char_boundary(60);
    if cut < text.len() { format!("{}…", &text[..cut]) } else { text.to_owned() }
}
