//! Parser of expressions: precedence climbing, with limits on nodes and nesting.

use super::{
    MAX_DEPTH,
    error::{ExprError, ExprErrorKind},
    functions::{FUNCTIONS, Function, MATCHES, compile},
    lex::{Lexer, Token, wrong},
    node::{Kind, LOOPS, Loop, Node, OPERATORS, Operator},
    number,
    value::Value,
};
use crate::definition::nearest;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token and its offset.
    token: Token<'a>,
    at: usize,
    /// The current depth of calls of [`Parser::nested`].
    nesting: usize,
    /// The number of nodes that may still be added.
    nodes: usize,
    max_nodes: usize,
}

/// Parses the whole text of an expression.
pub(super) fn parse(text: &str, max_nodes: usize) -> Result<Node, ExprError> {
    let lexer = Lexer::new(text);
    let mut parser =
        Parser { lexer, token: Token::End, at: 0, nesting: 0, nodes: max_nodes, max_nodes };
    parser.advance()?;
    let root = parser.expression()?;
    match parser.token {
        Token::End => Ok(root),
        Token::Name("and") => Err(parser.expected("an operator or the end", "write `&&`")),
        Token::Name("or") => Err(parser.expected("an operator or the end", "write `||`")),
        Token::Name(_) | Token::Number(_) | Token::Text(_) | Token::Sign(_) => {
            Err(parser.expected("an operator or the end", "remove it or add an operator"))
        }
    }
}

impl<'a> Parser<'a> {
    fn expression(&mut self) -> Result<Node, ExprError> {
        self.nested(Self::choice)
    }

    fn unary(&mut self) -> Result<Node, ExprError> {
        self.nested(Self::signed)
    }

    /// Calls `part` one level deeper. Every recursion of the parser uses this function, so that the
    /// depth is limited.
    fn nested(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<Node, ExprError>,
    ) -> Result<Node, ExprError> {
        self.nesting += 1;
        // Each pair of brackets takes two levels.
        if self.nesting > 2 * MAX_DEPTH {
            return Err(too_deep(self.at));
        }
        let node = part(self);
        self.nesting -= 1;
        node
    }

    fn choice(&mut self) -> Result<Node, ExprError> {
        let condition = self.binary(0)?;
        let at = self.at;
        if !self.take("?")? {
            return Ok(condition);
        }
        let yes = self.expression()?;
        self.require(":", "a choice is written `condition ? value : other`")?;
        let no = self.expression()?;
        self.node(at, Kind::Choose, vec![condition, yes, no])
    }

    /// Parses binary operators of precedence `least` and higher. All of them associate to the left.
    fn binary(&mut self, least: u8) -> Result<Node, ExprError> {
        let mut left = self.unary()?;
        while let Some((_, operator, precedence)) = self.operator().filter(|row| row.2 >= least) {
            let at = self.at;
            self.advance()?;
            let right = self.binary(precedence + 1)?;
            // A chain of `&&` or of `||` is one node with many children, so that it is not nested.
            match (&left.kind, operator) {
                (Kind::Binary(Operator::And), Operator::And)
                | (Kind::Binary(Operator::Or), Operator::Or) => {
                    left.depth = left.depth.max(right.depth + 1);
                    left.children.push(right);
                }
                _ => left = self.node(at, Kind::Binary(operator), vec![left, right])?,
            }
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(&'static str, Operator, u8)> {
        let (Token::Sign(sign) | Token::Name(sign)) = self.token else { return None };
        OPERATORS.iter().find(|row| row.0 == sign).copied()
    }

    fn signed(&mut self) -> Result<Node, ExprError> {
        let at = self.at;
        if self.take("!")? {
            let operand = self.unary()?;
            self.node(at, Kind::Not, vec![operand])
        } else if self.take("-")? {
            let operand = self.unary()?;
            if let Some(Value::Number(value)) = operand.literal() {
                let value = Value::number(number::negated(value));
                return self.node(at, Kind::Literal(value), Vec::new());
            }
            self.node(at, Kind::Negate, vec![operand])
        } else {
            let base = self.primary()?;
            self.postfix(base)
        }
    }

    fn primary(&mut self) -> Result<Node, ExprError> {
        let at = self.at;
        let kind = match self.advance()? {
            Token::Name("null") => Kind::Literal(Value::Null),
            Token::Name("true") => Kind::Literal(Value::Bool(true)),
            Token::Name("false") => Kind::Literal(Value::Bool(false)),
            Token::Name(name) if name != "in" && self.is_next("(") => {
                return self.call(at, name, None);
            }
            Token::Name(name) if name != "in" => Kind::Variable(name.to_owned()),
            Token::Number(value) => Kind::Literal(Value::number(value)),
            Token::Text(text) => Kind::Literal(Value::text(text)),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.require(")", "close the parenthesis")?;
                return Ok(inner);
            }
            Token::Sign("[") => {
                let items = self.items("]", "close the list", |parser, items| {
                    items.push(parser.expression()?);
                    Ok(())
                })?;
                return self.collection(at, Kind::List, items);
            }
            Token::Sign("{") => {
                let items = self.items("}", "close the map", |parser, items| {
                    items.push(parser.expression()?);
                    parser.require(":", "a map is written `{\"name\": value}`")?;
                    items.push(parser.expression()?);
                    Ok(())
                })?;
                return self.collection(at, Kind::Map, items);
            }
            token @ (Token::Name(_) | Token::Sign(_) | Token::End) => {
                let message =
                    format!("expected a value, got {token}: write a path, a literal or `(`");
                return Err(wrong(at, message));
            }
        };
        self.node(at, kind, Vec::new())
    }

    /// Parses the suffixes of a value: `.name`, `.method(…)`, `[…]`.
    fn postfix(&mut self, mut base: Node) -> Result<Node, ExprError> {
        loop {
            let at = self.at;
            if self.take(".")? {
                let Token::Name(name) = self.token else {
                    return Err(self.expected("a name", "write `[0]` or `[\"a b\"]`"));
                };
                self.advance()?;
                base = if self.is_next("(") {
                    self.call(at, name, Some(base))?
                } else {
                    self.select(base, name.to_owned())?
                };
            } else if self.take("[")? {
                let index = self.expression()?;
                self.require("]", "close the bracket")?;
                base = match index.literal().and_then(Value::as_name) {
                    Some(name) => self.select(base, name)?,
                    None => self.node(at, Kind::Index, vec![base, index])?,
                };
            } else {
                return Ok(base);
            }
        }
    }

    fn select(&mut self, mut base: Node, name: String) -> Result<Node, ExprError> {
        if let Kind::Select(names) = &mut base.kind {
            names.push(name);
            return Ok(base);
        }
        self.node(base.at, Kind::Select(vec![name]), vec![base])
    }

    /// Parses the arguments of a call, from the opening parenthesis.
    fn call(&mut self, at: usize, name: &str, base: Option<Node>) -> Result<Node, ExprError> {
        self.advance()?;
        let mut arguments: Vec<Node> = base.into_iter().collect();
        let is_method = !arguments.is_empty();
        if let Some((_, kind)) = LOOPS.iter().find(|row| row.0 == name).filter(|_| is_method) {
            return self.loop_over(at, *kind, arguments);
        }
        arguments.extend(self.items(")", "close the call", |parser, items| {
            items.push(parser.expression()?);
            Ok(())
        })?);
        if name == "has" && !is_method {
            let is_path = |node: &Node| matches!(node.kind, Kind::Select(_) | Kind::Index);
            return match arguments.as_slice() {
                [path] if is_path(path) => self.node(at, Kind::Has, arguments),
                _ => Err(wrong(at, "`has` takes one path, such as `has(event.data.user)`")),
            };
        }
        let is_meant = |it: &&Function| it.name == name && it.arguments == arguments.len();
        let function = FUNCTIONS.iter().find(is_meant).ok_or_else(|| unknown(at, name))?;
        let pattern = match arguments.get(1).and_then(Node::literal) {
            Some(Value::Text(text)) if name == MATCHES => Some(compile(text)),
            _ => None,
        };
        let pattern = pattern.transpose();
        let pattern =
            pattern.map_err(|reason| ExprError::new(ExprErrorKind::BadPattern, at, reason))?;
        self.node(at, Kind::Call(function, pattern), arguments)
    }

    fn loop_over(
        &mut self,
        at: usize,
        kind: Loop,
        mut parts: Vec<Node>,
    ) -> Result<Node, ExprError> {
        let Token::Name(name) = self.token else {
            let fix = format!("write `list.{}(item, item.id == 1)`", kind.name());
            return Err(self.expected("a name for each element", &fix));
        };
        self.advance()?;
        self.require(",", "a name and an expression are needed")?;
        parts.push(self.expression()?);
        self.require(")", "close the call")?;
        self.node(at, Kind::Loop(kind, name.to_owned()), parts)
    }

    /// Parses items separated by commas, up to the closing sign `end`.
    fn items(
        &mut self,
        end: &'static str,
        fix: &str,
        item: impl Fn(&mut Self, &mut Vec<Node>) -> Result<(), ExprError>,
    ) -> Result<Vec<Node>, ExprError> {
        let mut items = Vec::new();
        while !self.is_next(end) {
            item(self, &mut items)?;
            if !self.take(",")? {
                break;
            }
        }
        self.require(end, fix)?;
        Ok(items)
    }

    /// Creates the node of a list or a map. If all its items are literals, it is a literal, too.
    fn collection(&mut self, at: usize, kind: Kind, items: Vec<Node>) -> Result<Node, ExprError> {
        let is_map = matches!(kind, Kind::Map);
        let node = self.node(at, kind, items)?;
        let values: Option<Vec<_>> = node.children.iter().map(Node::literal).collect();
        let text = values.and_then(|values| super::json::collect(is_map, values));
        Ok(match text {
            Some(text) => Node { kind: Kind::Literal(Value::Json(text)), children: vec![], ..node },
            None => node,
        })
    }

    fn node(&mut self, at: usize, kind: Kind, children: Vec<Node>) -> Result<Node, ExprError> {
        let message = || format!("an expression must have at most {} nodes", self.max_nodes);
        let left = self.nodes.checked_sub(1);
        self.nodes =
            left.ok_or_else(|| ExprError::new(ExprErrorKind::TooComplex, at, message()))?;
        let node = Node::new(at, kind, children);
        if node.depth > MAX_DEPTH { Err(too_deep(at)) } else { Ok(node) }
    }

    /// Returns the current token and reads the next one.
    fn advance(&mut self) -> Result<Token<'a>, ExprError> {
        let (at, token) = self.lexer.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn is_next(&self, sign: &'static str) -> bool {
        self.token == Token::Sign(sign)
    }

    fn take(&mut self, sign: &'static str) -> Result<bool, ExprError> {
        let is_next = self.is_next(sign);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn require(&mut self, sign: &'static str, fix: &str) -> Result<(), ExprError> {
        if self.take(sign)? { Ok(()) } else { Err(self.expected(&format!("`{sign}`"), fix)) }
    }

    fn expected(&self, what: &str, fix: &str) -> ExprError {
        wrong(self.at, format!("expected {what}, got {}: {fix}", self.token))
    }
}

fn too_deep(at: usize) -> ExprError {
    let message = format!("an expression must nest at most {MAX_DEPTH} deep");
    ExprError::new(ExprErrorKind::TooComplex, at, message)
}

fn unknown(at: usize, name: &str) -> ExprError {
    let message = match FUNCTIONS.iter().find(|it| it.name == name).map(|it| it.arguments) {
        Some(1) => format!("`{name}` takes one argument: `{name}(a)`"),
        Some(_) => format!("`{name}` takes two arguments: `a.{name}(b)`"),
        None if LOOPS.iter().any(|row| row.0 == name) => {
            format!("`{name}` is a method: write `list.{name}(item, item > 1)`")
        }
        None => {
            let names = FUNCTIONS.iter().map(|it| it.name).chain(LOOPS.iter().map(|row| row.0));
            let names: Vec<&str> = names.chain(["has"]).collect();
            format!("there is no function `{name}`: {}", nearest::suggest(name, &names))
        }
    };
    ExprError::new(ExprErrorKind::UnknownFunction, at, message)
}
