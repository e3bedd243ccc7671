//! Tokens of an expression's text.

use std::fmt;

use super::error::{ExprError, ExprErrorKind};
use crate::key::Decimal;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Number(Decimal),
    Text(String),
    Sign(&'static str),
    End,
}

/// Operators and brackets. `<=` comes before `<`, because the first match is taken.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}", ";",
];

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// Reads the next token. Returns its offset and the token.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'a>), ExprError> {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\r', '\n']);
        let at = self.text.len() - rest.len();
        self.at = at;
        let token = match rest.chars().next() {
            None => Token::End,
            Some('"' | '\'') => self.take_text(rest)?,
            Some('0'..='9') => self.take_number(rest)?,
            Some('a'..='z' | 'A'..='Z' | '_') => {
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                self.at += name.len();
                Token::Name(name)
            }
            Some(other) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    self.at += sign.len();
                    Token::Sign(sign)
                }
                None => {
                    let fix = match other {
                        '=' => ": write `==`",
                        '&' => ": write `&&`",
                        '|' => ": write `||`",
                        _ => ": put text into quotes",
                    };
                    return Err(wrong(at, format!("`{other}` has no meaning here{fix}")));
                }
            },
        };
        Ok((at, token))
    }

    fn take_number(&mut self, rest: &str) -> Result<Token<'a>, ExprError> {
        let digits = |from: usize| {
            let length = rest[from..].find(|it: char| !it.is_ascii_digit());
            from + length.unwrap_or(rest.len() - from)
        };
        let mut end = digits(0);
        if rest[end..].starts_with('.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            end = digits(end + 1 + sign);
        }
        let number = Decimal::parse(&rest[..end])
            .map_err(|error| wrong(self.at, format!("a number must be as in JSON: {error}")))?;
        self.at += end;
        Ok(Token::Number(number))
    }

    fn take_text(&mut self, rest: &str) -> Result<Token<'a>, ExprError> {
        let start = self.at;
        let mut text = String::new();
        let mut characters = rest.char_indices();
        let quote = characters.next().map_or('"', |(_, quote)| quote);
        while let Some((n, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.at += n + 1;
                    return Ok(Token::Text(text));
                }
                '\\' => {
                    let (length, unescaped) =
                        unescape(&rest[n + 1..]).map_err(|message| wrong(start + n, message))?;
                    text.push(unescaped);
                    // Escapes are ASCII, so the length in bytes is the length in characters.
                    characters.nth(length - 1);
                }
                _ => text.push(character),
            }
        }
        Err(wrong(start, format!("the text has no closing {quote}")))
    }
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => write!(f, "`{name}`"),
            Token::Number(number) => write!(f, "the number `{number}`"),
            Token::Text(text) => write!(f, "the text `{}`", text.escape_debug()),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::End => f.write_str("the end"),
        }
    }
}

/// Reads an escape after its backslash, as in JSON. Returns its length and the character.
fn unescape(rest: &str) -> Result<(usize, char), String> {
    let simple = match rest.as_bytes().first() {
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let is_hexadecimal = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let unit = |from| {
                let digits = rest.get(from..from + 4).filter(is_hexadecimal)?;
                u16::from_str_radix(digits, 16).ok()
            };
            let first = unit(1).ok_or("`\\u` must be followed by four hexadecimal digits")?;
            let second = if rest[5..].starts_with("\\u") { unit(7) } else { None };
            let both = char::decode_utf16([first].into_iter().chain(second)).next();
            return match both {
                Some(Ok(one)) => Ok((if one.len_utf16() == 2 { 11 } else { 5 }, one)),
                _ => Err("`\\u` must not be half of a surrogate pair".to_owned()),
            };
        }
        Some(&other @ (b'"' | b'\'' | b'\\' | b'/')) => char::from(other),
        _ => return Err("unknown escape: write `\\\\` for a backslash".to_owned()),
    };
    Ok((1, simple))
}

pub(super) fn wrong(at: usize, message: impl Into<String>) -> ExprError {
    ExprError::new(ExprErrorKind::Syntax, at, message)
}
