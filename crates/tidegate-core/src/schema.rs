//! Schemas of workflow data and action inputs.
//!
//! The subset of JSON Schema that pydantic, zod and schemars write (draft 2020-12, and the forms of
//! draft 7 for definitions and tuples). Errors name the path of a mismatch. A definition with a
//! keyword that is not checked is refused, so that every rule in a schema is enforced. `format` is
//! only an annotation. A `$ref` can refer only to a part of the same schema.
//!
//! A check is a pure function of schema and value. The number of its steps and its depth are
//! limited.

mod pattern;
mod read;
#[cfg(test)]
mod tests;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Number, Value};

use self::pattern::Pattern;
pub(crate) use self::read::read;
use crate::definition::shorten;

/// Maximum size of a schema, as text. Every client that lists tools receives it.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Maximum number of steps of a check: a step applies one schema to one part of the value. The
/// largest payload has about a quarter of a million parts.
const MAX_STEPS: usize = 1_000_000;

/// Maximum number of nested schemas in a check. A payload is nested at most 128 deep, and a
/// generated schema has up to three schemas for each level.
const MAX_DEPTH: usize = 400;

/// Matching a pattern costs one step for each time that this number is contained in the length of
/// the text times the length of the pattern.
const MATCHED_PER_STEP: usize = 64;

/// A value that does not match its schema: where, and which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path, in the notation of keys: `input.items.0.id`.
    pub path: String,
    /// The rule and the value.
    pub rule: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path, self.rule)
    }
}

/// Checks a value against a schema; `at` is the value's path.
pub fn check(schema: &Value, value: &Value, at: &str) -> Result<(), Mismatch> {
    let mut checker =
        Checker { root: schema, steps: MAX_STEPS, patterns: BTreeMap::new(), quiet: 0 };
    match checker.check(schema, value, Place(None, Name::Text(at)), 0) {
        Ok(()) => Ok(()),
        Err(Stop::Unfit(mismatch)) => Err(mismatch),
        Err(Stop::TooComplex) => {
            let rule =
                format!("needs more than {MAX_STEPS} steps or {MAX_DEPTH} nested schemas to check");
            Err(Mismatch { path: at.to_owned(), rule })
        }
    }
}

/// Reason why a check stops.
enum Stop {
    Unfit(Mismatch),
    /// The check needs too many steps or is nested too deep. This is not a mismatch, and `not` and
    /// `anyOf` must not treat it as one.
    TooComplex,
}

type Checked = Result<(), Stop>;

/// The path of a part of the value. It is converted to text only for an error.
#[derive(Clone, Copy)]
struct Place<'a>(Option<&'a Place<'a>>, Name<'a>);

#[derive(Clone, Copy)]
enum Name<'a> {
    Text(&'a str),
    Index(usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.0 {
            write!(f, "{parent}.")?;
        }
        match self.1 {
            Name::Text(name) => f.write_str(name),
            Name::Index(n) => write!(f, "{n}"),
        }
    }
}

struct Checker<'a> {
    root: &'a Value,
    /// The number of steps that are left.
    steps: usize,
    /// Compiled patterns; `None` for a pattern that cannot be checked.
    patterns: BTreeMap<&'a str, Option<Pattern>>,
    /// Number of enclosing checks that need no error text. If it is not 0, no text is created.
    quiet: usize,
}

impl<'a> Checker<'a> {
    fn check(&mut self, schema: &'a Value, value: &Value, at: Place<'_>, depth: usize) -> Checked {
        self.spend(1)?;
        if depth > MAX_DEPTH {
            return Err(Stop::TooComplex);
        }
        let Some(rules) = schema.as_object() else {
            let wanted = *schema != Value::Bool(false);
            return if wanted { Ok(()) } else { self.unfit(at, || "is not allowed".into(), value) };
        };
        for (keyword, rule) in rules {
            if !self.holds(keyword, rule, value)? {
                let rule = || format!("must have {keyword} {}", shorten(rule));
                return self.unfit(at, rule, value);
            }
            self.combine(keyword, rule, value, at, depth)?;
        }
        match value {
            Value::Object(members) => self.check_members(rules, members, at, depth),
            Value::Array(items) => self.check_items(rules, items, at, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn spend(&mut self, steps: usize) -> Checked {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop::TooComplex)?;
        Ok(())
    }

    fn unfit(&self, at: Place<'_>, rule: impl FnOnce() -> String, value: &Value) -> Checked {
        if self.quiet > 0 {
            return Err(Stop::Unfit(Mismatch { path: String::new(), rule: String::new() }));
        }
        let rule = format!("{}, got {}", rule(), shorten(value));
        Err(Stop::Unfit(Mismatch { path: at.to_string(), rule }))
    }

    /// Whether a value matches a schema. Creates no error text.
    fn fits(
        &mut self,
        schema: &'a Value,
        value: &Value,
        at: Place<'_>,
        depth: usize,
    ) -> Result<bool, Stop> {
        self.quiet += 1;
        let checked = self.check(schema, value, at, depth + 1);
        self.quiet -= 1;
        match checked {
            Ok(()) => Ok(true),
            Err(Stop::Unfit(_)) => Ok(false),
            Err(Stop::TooComplex) => Err(Stop::TooComplex),
        }
    }

    /// Whether the value satisfies one rule. Returns true for rules for other types and for rules
    /// that contain schemas.
    fn holds(&mut self, keyword: &str, rule: &'a Value, value: &Value) -> Result<bool, Stop> {
        let amount = match keyword {
            "minLength" | "maxLength" => value.as_str().map(|text| text.chars().count().into()),
            "minItems" | "maxItems" => value.as_array().map(|items| items.len().into()),
            "minProperties" | "maxProperties" => value.as_object().map(|it| it.len().into()),
            _ => value.as_number().cloned(),
        };
        let order = || compare(amount.as_ref()?, rule.as_number()?);
        Ok(match keyword {
            "type" => each(rule).any(|kind| is(kind.as_str().unwrap_or_default(), value)),
            "enum" => {
                for one in each(rule) {
                    if self.same(one, value)? {
                        return Ok(true);
                    }
                }
                false
            }
            "const" => self.same(rule, value)?,
            "minimum" | "minLength" | "minItems" | "minProperties" => {
                order().is_none_or(Ordering::is_ge)
            }
            "maximum" | "maxLength" | "maxItems" | "maxProperties" => {
                order().is_none_or(Ordering::is_le)
            }
            "exclusiveMinimum" => order().is_none_or(Ordering::is_gt),
            "exclusiveMaximum" => order().is_none_or(Ordering::is_lt),
            "multipleOf" => {
                let numbers = value.as_number().zip(rule.as_number());
                numbers.is_none_or(|(number, by)| is_multiple(number, by))
            }
            "pattern" => match (rule.as_str(), value.as_str()) {
                (Some(pattern), Some(text)) => self.matches(pattern, text)?,
                _ => true,
            },
            "uniqueItems" => match value.as_array().filter(|_| *rule == Value::Bool(true)) {
                Some(items) => {
                    let mut seen = BTreeSet::new();
                    items.iter().all(|item| seen.insert(canonical(item)))
                }
                None => true,
            },
            _ => true,
        })
    }

    /// Checks a rule that applies other schemas to the same value.
    fn combine(
        &mut self,
        keyword: &str,
        rule: &'a Value,
        value: &Value,
        at: Place<'_>,
        depth: usize,
    ) -> Checked {
        match keyword {
            "$ref" => match rule.as_str().and_then(|path| resolve(self.root, path)) {
                Some(schema) => self.check(schema, value, at, depth + 1),
                None => self.unfit(at, || format!("must have $ref {rule}, which is absent"), value),
            },
            "allOf" => each(rule).try_for_each(|one| self.check(one, value, at, depth + 1)),
            "anyOf" | "oneOf" => {
                let mut fitting = 0;
                for one in each(rule) {
                    fitting += usize::from(self.fits(one, value, at, depth)?);
                    if fitting > 0 && keyword == "anyOf" {
                        return Ok(());
                    }
                }
                match fitting {
                    0 => self.explain(keyword, rule, value, at, depth),
                    1 => Ok(()),
                    n => self.unfit(
                        at,
                        || format!("must fit exactly one schema of oneOf, but fits {n}"),
                        value,
                    ),
                }
            }
            "not" if self.fits(rule, value, at, depth)? => {
                self.unfit(at, || format!("must not fit {}", shorten(rule)), value)
            }
            _ => Ok(()),
        }
    }

    /// Reports that the value matches no alternative. If all alternatives but one are excluded by
    /// their type or by a constant, as in unions with null or with a tag, the mismatch of that one
    /// is reported.
    fn explain(
        &mut self,
        keyword: &str,
        rule: &'a Value,
        value: &Value,
        at: Place<'_>,
        depth: usize,
    ) -> Checked {
        let all = || format!("must have {keyword} {}", shorten(rule));
        if self.quiet > 0 {
            return self.unfit(at, all, value);
        }
        let (steps, path) = (self.steps, at.to_string());
        let mut meant = Vec::new();
        for one in each(rule) {
            if let Err(Stop::Unfit(mismatch)) = self.check(one, value, at, depth + 1) {
                let by_type = mismatch.path == path && mismatch.rule.starts_with("must have type");
                let by_tag = mismatch.rule.starts_with("must have const");
                if !by_type && !by_tag {
                    meant.push(mismatch);
                }
            }
            // It is already known that no alternative matches. These checks only create the text,
            // and do not count.
            self.steps = steps;
        }
        match (meant.pop(), meant.is_empty()) {
            (Some(mismatch), true) => Err(Stop::Unfit(mismatch)),
            _ => self.unfit(at, all, value),
        }
    }

    fn check_members(
        &mut self,
        rules: &'a Map<String, Value>,
        members: &Map<String, Value>,
        at: Place<'_>,
        depth: usize,
    ) -> Checked {
        for (name, member) in members {
            let place = Place(Some(&at), Name::Text(name));
            if let Some(names) = rules.get("propertyNames")
                && !self.fits(names, &Value::String(name.clone()), place, depth)?
            {
                let rule = || format!("must have a name that fits {}", shorten(names));
                return self.unfit(place, rule, &Value::String(name.clone()));
            }
            let mut named = false;
            for schema in self.schemas_of(rules, name)? {
                named = true;
                self.check(schema, member, place, depth + 1)?;
            }
            if let Some(schema) = rules.get("additionalProperties").filter(|_| !named) {
                self.check(schema, member, place, depth + 1)?;
            }
        }
        // Checked after the members, so that in a union the alternative with the right tag is
        // reported.
        for name in rules.get("required").into_iter().flat_map(each).filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let path = Place(Some(&at), Name::Text(name)).to_string();
                let rule = "is required, and absent".to_owned();
                return Err(Stop::Unfit(Mismatch { path, rule }));
            }
        }
        let Some(schema) = rules.get("unevaluatedProperties") else { return Ok(()) };
        let whole = Value::Object(members.clone());
        for (name, member) in members {
            if !self.evaluates(rules, &whole, name, at, depth)? {
                self.check(schema, member, Place(Some(&at), Name::Text(name)), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Returns the schemas that `properties` and `patternProperties` have for a name.
    fn schemas_of(
        &mut self,
        rules: &'a Map<String, Value>,
        name: &str,
    ) -> Result<Vec<&'a Value>, Stop> {
        let mut schemas: Vec<_> =
            rules.get("properties").and_then(|it| it.get(name)).into_iter().collect();
        let patterns = rules.get("patternProperties").and_then(Value::as_object);
        for (pattern, schema) in patterns.into_iter().flatten() {
            if self.matches(pattern, name)? {
                schemas.push(schema);
            }
        }
        Ok(schemas)
    }

    /// Whether a member is evaluated by these rules, or by a schema that they apply to the same
    /// value and that the value matches.
    fn evaluates(
        &mut self,
        rules: &'a Map<String, Value>,
        whole: &Value,
        name: &str,
        at: Place<'_>,
        depth: usize,
    ) -> Result<bool, Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooComplex);
        }
        if rules.contains_key("additionalProperties") || !self.schemas_of(rules, name)?.is_empty() {
            return Ok(true);
        }
        let listed = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|it| rules.get(it));
        let target = rules.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|path| resolve(self.root, path));
        for schema in listed.flat_map(each).chain(target) {
            let Some(inner) = schema.as_object() else { continue };
            let inherits = inner.get("unevaluatedProperties").is_some();
            if self.fits(schema, whole, at, depth)?
                && (inherits || self.evaluates(inner, whole, name, at, depth + 1)?)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_items(
        &mut self,
        rules: &'a Map<String, Value>,
        items: &[Value],
        at: Place<'_>,
        depth: usize,
    ) -> Checked {
        // Before draft 2020-12, a tuple has a list of schemas in `items`, and `additionalItems` for
        // further elements.
        let (first, rest) = match rules.get("items") {
            Some(Value::Array(first)) => (first.as_slice(), rules.get("additionalItems")),
            rest => {
                let first = rules.get("prefixItems").and_then(Value::as_array);
                (first.map_or(&[][..], Vec::as_slice), rest)
            }
        };
        for (n, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(n).or(rest) {
                self.check(schema, item, Place(Some(&at), Name::Index(n)), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Whether a pattern matches. A pattern that cannot be checked matches everything.
    fn matches(&mut self, pattern: &'a str, text: &str) -> Result<bool, Stop> {
        self.spend(pattern.len().saturating_mul(text.len()) / MATCHED_PER_STEP)?;
        let compiled = self.patterns.entry(pattern).or_insert_with(|| Pattern::parse(pattern).ok());
        Ok(compiled.as_ref().is_none_or(|pattern| pattern.is_match(text)))
    }

    /// Whether two values are equal. Numbers are compared by value: `1` equals `1.0`.
    fn same(&mut self, one: &Value, other: &Value) -> Result<bool, Stop> {
        self.spend(1)?;
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                Ok(compare(one, other) == Some(Ordering::Equal))
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for (one, other) in one.iter().zip(other) {
                    if !self.same(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
                for (name, one) in one {
                    let Some(other) = other.get(name) else { return Ok(false) };
                    if !self.same(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(one == other),
        }
    }
}

/// Returns the part of a schema to which a `$ref` refers: `#`, or a JSON pointer in a fragment.
fn resolve<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    let fragment = path.strip_prefix('#')?;
    root.pointer(&percent_decoded(fragment)?)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Returns the items of a list, or a value that is not a list as the only item.
fn each(rule: &Value) -> std::slice::Iter<'_, Value> {
    rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice).iter()
}

fn is(kind: &str, value: &Value) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
        Value::Number(number) => {
            let whole = number.as_i128().is_some()
                || number.as_f64().is_some_and(|number| number.fract() == 0.0);
            kind == "number" || kind == "integer" && whole
        }
    }
}

/// Compares integers exactly, and other numbers as floats.
fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Whether a number is a multiple of another. Integers are checked exactly. For other numbers the
/// rounding of the division is tolerated, so that 0.0075 is a multiple of 0.0001.
fn is_multiple(number: &Number, by: &Number) -> bool {
    if let (Some(number), Some(by)) = (number.as_i128(), by.as_i128()) {
        return by != 0 && number % by == 0;
    }
    let (Some(number), Some(by)) = (number.as_f64(), by.as_f64()) else { return false };
    let times = number / by;
    times.is_finite() && (times - times.round()).abs() <= times.abs().max(1.0) * 1e-12
}

/// Returns the text of a value. Equal numbers have the same text.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            // Above this, a float does not represent every integer exactly.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                format!("{}", float + 0.0)
            }
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<_> = members
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}
