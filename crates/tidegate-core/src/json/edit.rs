//! Edits of one value in a payload that leave all other bytes unchanged.
//!
//! A document is edited as text: numbers, escapes and duplicate names outside of the edited value
//! stay as they were written. Only an object that a merge changes loses the spaces between its
//! members.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Payload,
    scan::{self, Cursor},
};
use crate::key::Decimal;

/// Reason why an edit is not possible, and the position in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The number of names of the path before the position.
    pub(crate) names: usize,
    /// The reason.
    pub(crate) by: Obstacle,
}

/// Reason why an edit is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The value has a type without members.
    Kind(&'static str),
    /// The list has no such element; the number is the length of the list.
    NoElement(usize),
}

impl Payload {
    /// Creates the payload of a number, without rounding.
    pub(crate) fn number(number: &Decimal) -> Payload {
        Payload(number.to_string().into())
    }

    /// Returns the value at the path `names`, without spaces around it.
    pub(crate) fn at(&self, names: &[String]) -> Option<Payload> {
        scan::select(&self.0, names).map(|text| Payload(text.into()))
    }

    /// Returns the type of the value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        kind(self.0.trim_start())
    }

    /// Returns the nesting depth.
    pub(crate) fn depth(&self) -> usize {
        scan::depth(&self.0)
    }

    /// Sets `value` at the path `names`. Creates the objects of the path that are absent or `null`.
    pub(crate) fn with(&self, names: &[String], value: &Payload) -> Result<Payload, Blocked> {
        let text = &*self.0;
        let mut at = value_from(text, 0);
        for (n, name) in names.iter().enumerate() {
            let here = &text[at.clone()];
            let blocked = |by| Err(Blocked { names: n, by });
            let next = match here.as_bytes().first() {
                Some(b'{') => member(text, at.start, name),
                Some(b'[') => match scan::index(name).and_then(|n| element(text, at.start, n)) {
                    Some(found) => Some(found),
                    None => return blocked(Obstacle::NoElement(elements(here))),
                },
                Some(b'n') => None,
                _ => return blocked(Obstacle::Kind(kind(here))),
            };
            let Some(next) = next else {
                let new = nested(&names[n + 1..], value.0.trim());
                let new = format!("{}:{new}", quoted(name));
                let object = if here.starts_with('{') { here } else { "{}" };
                return Ok(splice(text, &at, &extended(object, &new)));
            };
            at = next;
        }
        Ok(splice(text, &at, value.0.trim()))
    }

    /// Returns this document with `patch` merged into it, as in RFC 7396.
    pub(crate) fn merged(&self, patch: &Payload) -> Payload {
        Payload(merge(self.0.trim(), patch.0.trim()).into())
    }

    /// Returns this list with one more value, and its new length; none if it is not a list.
    pub(crate) fn appended(&self, value: &Payload) -> Option<(Payload, usize)> {
        let list = self.0.trim();
        if !list.starts_with('[') {
            return None;
        }
        let list = extended(list, value.0.trim());
        let length = elements(&list);
        Some((Payload(list.into()), length))
    }

    /// Returns the members of an object; of members with the same name, the last one. Empty for any
    /// other type.
    pub(crate) fn members(&self) -> BTreeMap<Name, Payload> {
        let members = members(self.0.trim()).into_iter();
        members.map(|it| (it.name, Payload(it.value.into()))).collect()
    }
}

/// Name of a member; `Err` with the raw text if it is not valid text (half a surrogate pair).
pub(crate) type Name = Result<String, String>;

struct Member<'a> {
    name: Name,
    /// Name and value as they are written in the document.
    whole: &'a str,
    quoted: &'a str,
    value: &'a str,
}

/// Returns all members of an object, in order; an empty list for any other type.
fn members(object: &str) -> Vec<Member<'_>> {
    let mut found = Vec::new();
    if !object.starts_with('{') {
        return found;
    }
    let mut cursor = Cursor { text: object, at: 1 };
    while cursor.peek_token() == Some(b'"') {
        let start = cursor.at;
        let quoted = cursor.take_value();
        cursor.skip_token(b':');
        let value = cursor.take_value();
        let name = serde_json::from_str(quoted).map_err(|_| quoted.to_owned());
        found.push(Member { name, whole: &object[start..cursor.at], quoted, value });
        cursor.skip_token(b',');
    }
    found
}

/// Merges a patch as in RFC 7396. The depth of recursion is that of the patch.
fn merge(target: &str, patch: &str) -> String {
    if !patch.starts_with('{') {
        return patch.to_owned();
    }
    let (old, new) = (members(target), members(patch));
    // Of members with the same name the last one counts. A removal removes all of them, so that the
    // first one does not become visible.
    let (last, changes) = (places(&old), places(&new));
    let mut parts: Vec<String> = Vec::with_capacity(old.len() + new.len());
    for (n, member) in old.iter().enumerate() {
        match changes.get(&member.name).map(|n| &new[*n]) {
            Some(change) if change.value == "null" => {}
            Some(change) if last.get(&member.name) == Some(&n) => {
                parts.push(format!("{}:{}", member.quoted, merge(member.value, change.value)));
            }
            Some(_) | None => parts.push(member.whole.to_owned()),
        }
    }
    for (n, member) in new.iter().enumerate() {
        let counts = changes.get(&member.name) == Some(&n);
        if counts && !last.contains_key(&member.name) && member.value != "null" {
            parts.push(format!("{}:{}", member.quoted, merge("null", member.value)));
        }
    }
    format!("{{{}}}", parts.join(","))
}

/// Returns the index of the last member of each name.
fn places<'a>(members: &'a [Member<'_>]) -> BTreeMap<&'a Name, usize> {
    members.iter().enumerate().map(|(n, member)| (&member.name, n)).collect()
}

/// Returns the range of the value that begins at or after `from`, without spaces around it.
fn value_from(text: &str, from: usize) -> Range<usize> {
    let mut cursor = Cursor { text, at: from };
    let length = cursor.take_value().len();
    cursor.at - length..cursor.at
}

/// Returns the range of the value of the last member `name` of the object that begins at `open`.
fn member(text: &str, open: usize, name: &str) -> Option<Range<usize>> {
    let mut cursor = Cursor { text, at: open + 1 };
    let mut found = None;
    while cursor.peek_token()? == b'"' {
        let key = cursor.take_value();
        cursor.skip_token(b':');
        let value = value_from(text, cursor.at);
        cursor.at = value.end;
        if scan::is_name(key, name) {
            found = Some(value);
        }
        cursor.skip_token(b',');
    }
    found
}

/// Returns the range of an element of the list that begins at `open`.
fn element(text: &str, open: usize, index: usize) -> Option<Range<usize>> {
    let mut cursor = Cursor { text, at: open + 1 };
    for _ in 0..index {
        if cursor.peek_token()? == b']' {
            return None;
        }
        cursor.take_value();
        cursor.skip_token(b',');
    }
    (cursor.peek_token()? != b']').then(|| value_from(text, cursor.at))
}

/// Returns the number of elements in a list.
fn elements(list: &str) -> usize {
    let mut cursor = Cursor { text: list, at: 1 };
    let mut count = 0;
    while cursor.peek_token().is_some_and(|byte| byte != b']') {
        cursor.take_value();
        cursor.skip_token(b',');
        count += 1;
    }
    count
}

/// Returns an object or list with one more part at its end.
fn extended(container: &str, part: &str) -> String {
    let (before, close) = container.split_at(container.len() - 1);
    let before = before.trim_end();
    let comma = if before.len() > 1 { "," } else { "" };
    format!("{before}{comma}{part}{close}")
}

/// Wraps a value in objects, one for each name.
fn nested(names: &[String], value: &str) -> String {
    let inside = |inner: String, name: &String| format!("{{{}:{inner}}}", quoted(name));
    names.iter().rev().fold(value.to_owned(), inside)
}

fn splice(text: &str, at: &Range<usize>, new: &str) -> Payload {
    let text = [&text[..at.start], new, &text[at.end..]].concat();
    Payload(text.into())
}

fn quoted(name: &str) -> String {
    serde_json::to_string(name).expect("text is serializable")
}

fn kind(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn payload(text: &str) -> Payload {
        Payload::parse(text.as_bytes(), usize::MAX).unwrap()
    }

    /// Applies edits and compares the results with `expected`. Each edit is `path = value`, with
    /// `-` for the whole document.
    #[track_caller]
    fn check(document: &str, table: Expect) {
        let lines = table.data.lines().filter_map(|line| line.trim().split_once(" -> "));
        let told: Vec<String> = lines
            .map(|(edit, _)| {
                let (path, value) = edit.split_once(" = ").unwrap();
                let names: Vec<String> =
                    path.split('.').filter(|it| *it != "-").map(str::to_owned).collect();
                match payload(document).with(&names, &payload(value)) {
                    Ok(new) => format!("{edit} -> {}\n", new.as_str()),
                    Err(blocked) => format!("{edit} -> {blocked:?}\n"),
                }
            })
            .collect();
        table.assert_eq(&told.concat());
    }

    #[test]
    fn a_value_is_put_where_the_path_leads_and_nothing_else_moves() {
        check(
            r#" { "a" : 1.0 , "b":{ "c" : [1e400, {"d": "\ud800"} ] }, "n":null , "a": 2 } "#,
            expect![[r#"
                a = 7 ->  { "a" : 1.0 , "b":{ "c" : [1e400, {"d": "\ud800"} ] }, "n":null , "a": 7 } 
                b.c.0 = 8 ->  { "a" : 1.0 , "b":{ "c" : [8, {"d": "\ud800"} ] }, "n":null , "a": 2 } 
                b.c.1.d = [] ->  { "a" : 1.0 , "b":{ "c" : [1e400, {"d": []} ] }, "n":null , "a": 2 } 
                b.e.f = 1 ->  { "a" : 1.0 , "b":{ "c" : [1e400, {"d": "\ud800"} ],"e":{"f":1}}, "n":null , "a": 2 } 
                n.x.y = 1 ->  { "a" : 1.0 , "b":{ "c" : [1e400, {"d": "\ud800"} ] }, "n":{"x":{"y":1}} , "a": 2 } 
                new = {"x": 1} ->  { "a" : 1.0 , "b":{ "c" : [1e400, {"d": "\ud800"} ] }, "n":null , "a": 2,"new":{"x": 1}} 
                b.c.2 = 0 -> Blocked { names: 2, by: NoElement(2) }
                b.c.x = 0 -> Blocked { names: 2, by: NoElement(2) }
                a.x = 0 -> Blocked { names: 1, by: Kind("a number") }
                b.c.1.d.x = 0 -> Blocked { names: 4, by: Kind("text") }
            "#]],
        );
        check(
            "null",
            expect![[r#"
                - = {"a":1} -> {"a":1}
                a.0 = 1 -> {"a":{"0":1}}
                q"t = 1 -> {"q\"t":1}
            "#]],
        );
        check(
            "{ }",
            expect![[r#"
            a = 1 -> {"a":1}
        "#]],
        );
    }

    /// The examples of RFC 7396, Appendix A, and names that a merge must not confuse.
    #[test]
    fn a_merge_is_that_of_rfc_7396() {
        let table = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            // Numbers, space inside members and escapes are kept as they are written.
            (r#"{ "x" : 1.00 , "y":2 }"#, r#"{"y":1e2}"#, r#"{"x" : 1.00,"y":1e2}"#),
            (r#"{"\u0061":1}"#, r#"{"a":2}"#, r#"{"\u0061":2}"#),
            // A duplicate name: the last one counts, and both are removed.
            (r#"{"a":1,"b":0,"a":2}"#, r#"{"a":3}"#, r#"{"a":1,"b":0,"a":3}"#),
            (r#"{"a":1,"b":0,"a":2}"#, r#"{"a":null}"#, r#"{"b":0}"#),
            ("{}", r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            // Half a surrogate pair is treated as any other name.
            (r#"{"\ud800":1}"#, r#"{"\ud800":2,"\udc00":3}"#, r#"{"\ud800":2,"\udc00":3}"#),
        ];
        for (target, patch, expected) in table {
            let merged = payload(target).merged(&payload(patch));
            assert_eq!(merged.as_str(), expected, "{target} with {patch}");
        }
    }

    #[test]
    fn a_list_grows_at_its_end() {
        let table = [
            ("[]", Some(("[7]", 1))),
            ("[ ]", Some(("[7]", 1))),
            (" [1, [2,3] ] ", Some(("[1, [2,3],7]", 3))),
            (r#"["]"]"#, Some((r#"["]",7]"#, 2))),
            ("{}", None),
            ("null", None),
        ];
        for (list, expected) in table {
            let appended = payload(list).appended(&payload(" 7 "));
            let appended = appended.as_ref().map(|(list, length)| (list.as_str(), *length));
            assert_eq!(appended, expected, "{list}");
        }
    }
}
