//! The parser (recursive descent) of the textual form of graphs.
//!
//! In: what [`Display`](std::fmt::Display) of a graph writes, or what a person wrote like it. Out: a verified graph, or
//! what is wrong and where.

use std::collections::HashMap;

use crate::graph::{Graph, Node, NodeKind, Scan, State, StateId, Type, ValueId, Write, verify};
use crate::ops::find_prim;
use crate::span::Span;
use crate::text::scanner::{ErrorAt, ParseError, Scanner, truncated};
use crate::text::{MAX_DEPTH, MAX_SPLAT_ELEMENTS};

/// Parses a graph, and verifies it.
///
/// ```
/// use trainspec_ir::text;
///
/// let graph = text::parse(
///     r#"graph "double" {
///          %x = input "x" : f32[2]   // values are renumbered
///          %y = add(%x, %x) : f32[2]
///          return "y" = %y
///        }"#,
/// )
/// .unwrap();
/// assert_eq!(
///     graph.to_string(),
///     r#"graph "double" {
///   %0 = input "x" : f32[2]
///   %1 = add(%0, %0) : f32[2]
///   return "y" = %1
/// }
/// "#
/// );
/// let error = text::parse("graph \"empty\" {\n  return \"y\" = %0\n}").unwrap_err();
/// assert_eq!(error.to_string(), "line 2, column 16: there is no value %0 before this");
/// ```
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    let mut parser = Parser {
        scanner: Scanner::new(text),
        splats: MAX_SPLAT_ELEMENTS,
    };
    parser.graph().map_err(|error| error.within(text))
}

/// The state of the parser.
pub(super) struct Parser<'t> {
    pub(super) scanner: Scanner<'t>,
    /// How many elements of `splat` constants are left.
    pub(super) splats: usize,
}

/// A graph under construction, and its symbol tables.
#[derive(Default)]
struct Body<'t> {
    graph: Graph,
    /// The state, and whether it was written.
    states: HashMap<String, (StateId, bool)>,
    values: HashMap<&'t str, ValueId>,
    offsets: Offsets,
}

/// The byte offsets of the nodes of a graph in the text, and those of its loop bodies.
#[derive(Default)]
struct Offsets {
    nodes: Vec<(usize, Option<Offsets>)>,
    end: usize,
}

impl<'t> Parser<'t> {
    fn graph(&mut self) -> Result<Graph, ErrorAt> {
        self.scanner.expect_word("graph")?;
        let name = self.scanner.quoted("the name of the graph in quotes")?;
        let mut body = self.body(0)?;
        if !self.scanner.is_done() {
            return Err(self.scanner.expected("the end of the text"));
        }
        body.graph.name = name;
        match verify_error(&body.graph, &body.offsets) {
            Some(error) => Err(error),
            None => Ok(body.graph),
        }
    }

    /// The body of a graph, in braces.
    fn body(&mut self, depth: usize) -> Result<Body<'t>, ErrorAt> {
        self.scanner.expect("{")?;
        let mut body = Body::default();
        while self.scanner.take_word("state") {
            self.state(&mut body)?;
        }
        let mut next = "`state`, a value, `write`, `return` or `}`";
        while self.scanner.is_value() || self.scanner.peek_word() == "scan" {
            self.node(&mut body, depth)?;
            next = "a value, `write`, `return` or `}`";
        }
        while self.scanner.take_word("write") {
            self.write(&mut body)?;
            next = "`write`, `return` or `}`";
        }
        while self.scanner.take_word("return") {
            let name = self.scanner.quoted("the name of the result in quotes")?;
            self.scanner.expect("=")?;
            let value = self.operand(&body)?;
            body.graph.results.push((name, value));
            next = "`return` or `}`";
        }
        body.offsets.end = self.scanner.at();
        match self.scanner.take("}") {
            true => Ok(body),
            false => Err(self.scanner.expected(next)),
        }
    }

    fn state(&mut self, body: &mut Body<'t>) -> Result<(), ErrorAt> {
        let at = self.scanner.at();
        let name = self.scanner.quoted("the name of the state in quotes")?;
        self.scanner.expect(":")?;
        let ty = self.ty()?;
        let id = StateId(body.graph.state.len() as u32);
        if body.states.insert(name.clone(), (id, false)).is_some() {
            let message = format!("there are two pieces of state `{}`", truncated(&name));
            return Err(ErrorAt::new(at, message));
        }
        body.graph.state.push(State { name, ty });
        Ok(())
    }

    fn write(&mut self, body: &mut Body<'t>) -> Result<(), ErrorAt> {
        let at = self.scanner.at();
        let name = self.scanner.quoted("the name of the state in quotes")?;
        self.scanner.expect("<-")?;
        let value_at = self.scanner.at();
        let value = self.operand(body)?;
        let Some((state, written)) = body.states.get_mut(&name) else {
            let message = format!("there is no state `{}`", truncated(&name));
            return Err(ErrorAt::new(at, message));
        };
        if std::mem::replace(written, true) {
            let message = format!("`{}` is written twice", truncated(&name));
            return Err(ErrorAt::new(at, message));
        }
        let (expected, found) = (&body.graph.state[state.index()].ty, body.graph.ty(value));
        if expected != found {
            let message = format!("`{}` is {expected}, but is given {found}", truncated(&name));
            return Err(ErrorAt::new(value_at, message));
        }
        body.graph.writes.push(Write {
            state: *state,
            value,
            span: Span::default(),
        });
        Ok(())
    }

    fn node(&mut self, body: &mut Body<'t>, depth: usize) -> Result<(), ErrorAt> {
        let start = self.scanner.at();
        let mut names = Vec::new();
        if self.scanner.is_value() {
            loop {
                names.push((self.scanner.at(), self.scanner.value()?));
                if !self.scanner.take(",") {
                    break;
                }
            }
            self.scanner.expect("=")?;
        }
        let mut operands = Vec::new();
        let mut offsets = None;
        let at = self.scanner.at();
        let (kind, types) = match self.scanner.word("an operation")? {
            "input" => {
                let name = self.scanner.quoted("the name of the input in quotes")?;
                (NodeKind::Input(name), self.types(&names)?)
            }
            "const" => {
                let elements = self.elements()?;
                let types = self.types(&names)?;
                let [ty] = types.as_slice() else {
                    return Err(ErrorAt::new(start, "a constant is one value"));
                };
                (NodeKind::Const(self.tensor(ty, &elements)?), types)
            }
            "read" => {
                let at = self.scanner.at();
                let name = self.scanner.quoted("the name of the state in quotes")?;
                let Some((state, _)) = body.states.get(&name) else {
                    let message = format!("there is no state `{}`", truncated(&name));
                    return Err(ErrorAt::new(at, message));
                };
                (NodeKind::Read(*state), self.types(&names)?)
            }
            "scan" => {
                let (scan, inner) = self.scan(body, &mut operands, depth)?;
                offsets = Some(inner);
                (NodeKind::Scan(Box::new(scan)), self.types(&names)?)
            }
            name => {
                let Some(prim) = find_prim(name) else {
                    let message = format!("there is no primitive `{}`", truncated(name));
                    return Err(ErrorAt::new(at, message));
                };
                self.scanner.expect("(")?;
                if self.scanner.is_value() {
                    operands = self.operands(body)?;
                }
                let listed = match operands.is_empty() {
                    true => !self.scanner.peek_word().is_empty(),
                    false => self.scanner.take(";"),
                };
                let attrs = self.attributes(prim, at, listed)?;
                self.scanner.expect(")")?;
                (NodeKind::Prim(prim, attrs.into()), self.types(&names)?)
            }
        };
        let mut results = Vec::with_capacity(names.len());
        for ((at, name), ty) in names.into_iter().zip(types) {
            let id = ValueId(body.graph.types.len() as u32);
            if body.values.insert(name, id).is_some() {
                return Err(ErrorAt::new(
                    at,
                    format!("%{} is defined twice", truncated(name)),
                ));
            }
            body.graph.types.push(ty);
            results.push(id);
        }
        body.offsets.nodes.push((start, offsets));
        body.graph.nodes.push(Node {
            kind,
            operands,
            results,
            span: Span::default(),
        });
        Ok(())
    }

    /// A loop, whose operands are added to `operands`.
    fn scan(
        &mut self,
        body: &Body<'t>,
        operands: &mut Vec<ValueId>,
        depth: usize,
    ) -> Result<(Scan, Offsets), ErrorAt> {
        let at = self.scanner.at();
        let length = self.size("the number of iterations")?;
        let reverse = self.scanner.take_word("reverse");
        let mut counts = [0; 3];
        for (word, count) in ["captures", "carries", "over"].into_iter().zip(&mut counts) {
            self.scanner.expect_word(word)?;
            self.scanner.expect("[")?;
            if self.scanner.is_value() {
                let values = self.operands(body)?;
                *count = values.len();
                operands.extend(values);
            }
            self.scanner.expect("]")?;
        }
        if depth == MAX_DEPTH {
            let message = format!("loops are nested more than {MAX_DEPTH} deep");
            return Err(ErrorAt::new(at, message));
        }
        let body = self.body(depth + 1)?;
        let scan = Scan {
            length,
            reverse,
            captures: counts[0],
            carries: counts[1],
            body: body.graph,
        };
        Ok((scan, body.offsets))
    }

    /// `: f32, i64`, one type for each value.
    fn types(&mut self, values: &[(usize, &str)]) -> Result<Vec<Type>, ErrorAt> {
        let mut types = Vec::with_capacity(values.len());
        for i in 0..values.len() {
            match (i, self.scanner.take(if i == 0 { ":" } else { "," })) {
                (_, true) => types.push(self.ty()?),
                (0, false) => return Err(self.scanner.expected("`:` and a type")),
                (_, false) => {
                    return Err(self.scanner.expected("`,` and a type for each value"));
                }
            }
        }
        Ok(types)
    }

    /// Uses of values that are defined before, at least one.
    fn operands(&mut self, body: &Body<'t>) -> Result<Vec<ValueId>, ErrorAt> {
        let mut values = vec![self.operand(body)?];
        while self.scanner.take(",") {
            values.push(self.operand(body)?);
        }
        Ok(values)
    }

    /// A use of a value that is defined before.
    fn operand(&mut self, body: &Body<'t>) -> Result<ValueId, ErrorAt> {
        let at = self.scanner.at();
        let name = self.scanner.value()?;
        let value = body.values.get(name).copied();
        value.ok_or_else(|| {
            ErrorAt::new(
                at,
                format!("there is no value %{} before this", truncated(name)),
            )
        })
    }
}

/// The first invariant that the graph violates, and where.
fn verify_error(graph: &Graph, offsets: &Offsets) -> Option<ErrorAt> {
    let error = verify(graph).err()?;
    let Some(index) = error.node else {
        return Some(ErrorAt::new(offsets.end, error.message));
    };
    let (at, inner) = &offsets.nodes[index];
    if let (NodeKind::Scan(scan), Some(inner)) = (&graph.nodes[index].kind, inner)
        && let Some(inner) = verify_error(&scan.body, inner)
    {
        return Some(inner);
    }
    Some(ErrorAt::new(*at, error.message))
}
