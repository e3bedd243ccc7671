//! Syntax tree of an expression, and its conversion to text.

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
};

use super::{
    functions::{Function, Pattern},
    json::quote,
    number,
    value::{Type, Value},
};
use crate::json::index;

/// Node of the syntax tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The offset in the text: of the operator, or else of the first character.
    pub(super) at: usize,
    /// The depth of the tree under this node; 1 without children.
    pub(super) depth: usize,
    pub(super) kind: Kind,
    /// The children, in the order of the text. [`Kind`] says how many there are.
    pub(super) children: Vec<Node>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Literal(Value<'static>),
    Variable(String),
    /// One child, and a constant path of names and indexes: `a.b["c"][0]`.
    Select(Vec<String>),
    /// Two children: a map or list, and the name or index.
    Index,
    /// One child, which is a `Select` or an `Index`.
    Has,
    /// Any number of children: the elements.
    List,
    /// An even number of children: alternating names and values.
    Map,
    /// One child, which is negated logically.
    Not,
    /// One child, a number, which is negated.
    Negate,
    /// Two children; [`Operator::And`] and [`Operator::Or`] may have more.
    Binary(Operator),
    /// Three children: condition, value if true, value if false.
    Choose,
    /// The children are the arguments; for a method, the receiver is the first one. A pattern that
    /// is a literal is compiled here.
    Call(&'static Function, Option<Pattern>),
    /// Two children: a list, and an expression that is evaluated for each element. The text is the
    /// name of the element.
    Loop(Loop, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    Exists,
    All,
    Map,
    Filter,
}

/// Binary operators with their precedence; a higher number binds more strongly.
pub(super) const OPERATORS: [(&str, Operator, u8); 14] = [
    ("||", Operator::Or, 1),
    ("&&", Operator::And, 2),
    ("==", Operator::Equal, RELATION),
    ("!=", Operator::Unequal, RELATION),
    ("<", Operator::Less, RELATION),
    ("<=", Operator::LessOrEqual, RELATION),
    (">", Operator::Greater, RELATION),
    (">=", Operator::GreaterOrEqual, RELATION),
    ("in", Operator::In, RELATION),
    ("+", Operator::Add, 4),
    ("-", Operator::Subtract, 4),
    ("*", Operator::Multiply, 5),
    ("/", Operator::Divide, 5),
    ("%", Operator::Remainder, 5),
];

/// Methods that evaluate their argument for each element.
pub(super) const LOOPS: [(&str, Loop); 4] =
    [("exists", Loop::Exists), ("all", Loop::All), ("map", Loop::Map), ("filter", Loop::Filter)];

/// Precedence of `?:`, of comparisons, of unary operators, and of nodes that never need
/// parentheses.
const CHOICE: u8 = 0;
const RELATION: u8 = 3;
const UNARY: u8 = 6;
const POSTFIX: u8 = 7;

impl Node {
    pub(super) fn new(at: usize, kind: Kind, children: Vec<Node>) -> Node {
        let depth = 1 + children.iter().map(|child| child.depth).max().unwrap_or(0);
        Node { at, depth, kind, children }
    }

    pub(super) fn literal(&self) -> Option<&Value<'static>> {
        if let Kind::Literal(value) = &self.kind { Some(value) } else { None }
    }

    /// Returns the variables that the node needs, without the names of elements of its own loops.
    pub(super) fn variables(&self) -> BTreeSet<&str> {
        if let Kind::Variable(name) = &self.kind {
            return BTreeSet::from([name.as_str()]);
        }
        let mut names: Vec<_> = self.children.iter().map(Node::variables).collect();
        if let (Kind::Loop(_, element), Some(body)) = (&self.kind, names.get_mut(1)) {
            body.remove(element.as_str());
        }
        names.into_iter().flatten().collect()
    }

    /// Whether the result of the node is always a boolean or an error.
    pub(super) fn is_boolean(&self) -> bool {
        match &self.kind {
            Kind::Binary(operator) => operator.row().2 <= RELATION,
            Kind::Literal(value) => value.kind() == Type::Bool,
            Kind::Call(function, _) => function.arguments == 2,
            Kind::Loop(kind, _) => matches!(kind, Loop::Exists | Loop::All),
            Kind::Not | Kind::Has => true,
            Kind::Variable(_)
            | Kind::Select(_)
            | Kind::Index
            | Kind::List
            | Kind::Map
            | Kind::Negate
            | Kind::Choose => false,
        }
    }

    fn precedence(&self) -> u8 {
        match &self.kind {
            Kind::Choose => CHOICE,
            Kind::Binary(operator) => operator.row().2,
            Kind::Not | Kind::Negate => UNARY,
            Kind::Literal(Value::Number(number)) if number::sign(number) < 0 => UNARY,
            Kind::Literal(_)
            | Kind::Variable(_)
            | Kind::Select(_)
            | Kind::Index
            | Kind::Has
            | Kind::List
            | Kind::Map
            | Kind::Call(..)
            | Kind::Loop(..) => POSTFIX,
        }
    }

    /// Writes the node, in parentheses if its precedence is lower than `least`.
    fn write(&self, least: u8, out: &mut dyn Write) -> fmt::Result {
        let own = self.precedence();
        if own < least {
            out.write_char('(')?;
            self.write(CHOICE, out)?;
            return out.write_char(')');
        }
        let children = &self.children;
        match &self.kind {
            Kind::Literal(value) => out.write_str(&value.to_json()),
            Kind::Variable(name) => out.write_str(name),
            Kind::Select(names) => {
                children[0].write(POSTFIX, out)?;
                names.iter().try_for_each(|name| write_name(name, out))
            }
            Kind::Index => {
                children[0].write(POSTFIX, out)?;
                write_list("[", &children[1..], "]", out)
            }
            Kind::Has => write_list("has(", children, ")", out),
            Kind::Call(function, _) => {
                write_list(&format!("{}(", function.name), children, ")", out)
            }
            Kind::List => write_list("[", children, "]", out),
            Kind::Map => {
                for (n, pair) in children.chunks(2).enumerate() {
                    write!(out, "{}{}: {}", if n > 0 { ", " } else { "{" }, pair[0], pair[1])?;
                }
                out.write_char('}')
            }
            Kind::Not | Kind::Negate => {
                out.write_char(if matches!(self.kind, Kind::Not) { '!' } else { '-' })?;
                children[0].write(UNARY, out)
            }
            Kind::Binary(operator) => {
                for (n, child) in children.iter().enumerate() {
                    if n > 0 {
                        write!(out, " {} ", operator.row().0)?;
                    }
                    child.write(own + u8::from(n > 0), out)?;
                }
                Ok(())
            }
            Kind::Choose => {
                children[0].write(CHOICE + 1, out)?;
                write!(out, " ? {} : {}", children[1], children[2])
            }
            Kind::Loop(kind, name) => {
                children[0].write(POSTFIX, out)?;
                write_list(&format!(".{}({name}, ", kind.name()), &children[1..], ")", out)
            }
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(CHOICE, f)
    }
}

impl Operator {
    /// Returns the row in [`OPERATORS`].
    pub(super) fn row(self) -> (&'static str, Operator, u8) {
        *OPERATORS.iter().find(|row| row.1 == self).expect("OPERATORS has every operator")
    }
}

impl Loop {
    pub(super) fn name(self) -> &'static str {
        LOOPS.iter().find(|row| row.1 == self).expect("LOOPS has every method").0
    }
}

/// Whether the text can be a member name after a dot, or the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let letter = |character: char| character.is_ascii_alphabetic() || character == '_';
    text.starts_with(letter) && text.chars().all(|it| letter(it) || it.is_ascii_digit())
}

fn write_name(name: &str, out: &mut dyn Write) -> fmt::Result {
    if is_name(name) {
        write!(out, ".{name}")
    } else if index(name).is_some() {
        write!(out, "[{name}]")
    } else {
        write!(out, "[{}]", quote(name))
    }
}

fn write_list(before: &str, items: &[Node], after: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_str(before)?;
    for (n, item) in items.iter().enumerate() {
        write!(out, "{}{item}", if n > 0 { ", " } else { "" })?;
    }
    out.write_str(after)
}
