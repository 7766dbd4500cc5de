//! Lowering of `scan` loops: free variables of the body become captures (closure conversion).

use std::collections::BTreeSet;

use trainspec_ir::build::{Builder, Loop, Value};

use crate::diag::{Code, Diagnostic};
use crate::lower::program::{self, Values};
use crate::lower::{Context, GLOBAL_STEP};
use crate::typed::{Input, Node, NodeKind, Operand, Program, Scan, ValueId, VarId};

/// Lowers a loop; gives its results.
pub(super) fn lower<'g>(
    cx: &Context<'_>,
    b: &'g Builder,
    program: &Program,
    scan: &Scan,
    node: &Node,
    values: &Values<'g>,
) -> Result<Vec<Value<'g>>, Diagnostic> {
    let mut uses = FreeVariables::default();
    uses.visit(scan);
    let over: Vec<Value<'g>> = scan.over.iter().map(|id| values.get(*id)).collect();
    let starts: Vec<Value<'g>> = scan.starts.iter().map(|id| values.get(*id)).collect();
    let free: Vec<ValueId> = uses.used.difference(&uses.defined).copied().collect();
    let mut captures: Vec<Value<'g>> = free.iter().map(|id| values.get(*id)).collect();
    for var in &uses.reads {
        captures.push(program::read(cx, b, *var)?);
    }
    if uses.step {
        captures.push(program::global_step(b));
    }
    let random = uses.random.then(|| program::randomness(b));
    if let Some((seed, numbers)) = &random {
        captures.push(*seed);
        captures.extend(numbers);
    }
    // Run-time counts are captured with the values that have them.
    let counted: Vec<Value<'g>> = [&captures[..], &starts, &over].concat();
    let counts = b.counts_in(&counted);
    captures.extend(counts.iter().map(|(_, value)| *value));
    let used = over[0].tensor_type().shape.0[0].count.clone();
    let scan_loop = Loop {
        length: over[0].shape()[0],
        reverse: false,
        captures,
        starts,
        over,
    };
    let (outer_captures, outer_starts, outer_over) = (
        scan_loop.captures.clone(),
        scan_loop.starts.clone(),
        scan_loop.over.clone(),
    );

    let mut failed = None;
    let (finals, yields) = b.scan(scan_loop, |iteration| {
        let inner = iteration.position.builder();
        outer_captures
            .iter()
            .zip(&iteration.captures)
            .for_each(|(from, to)| b.copy_counts(*from, *to, 0));
        outer_starts
            .iter()
            .zip(&iteration.carries)
            .for_each(|(from, to)| b.copy_counts(*from, *to, 0));
        outer_over
            .iter()
            .zip(&iteration.elements)
            .for_each(|(from, to)| b.copy_counts(*from, *to, 1));
        let mut captured = iteration.captures.iter().copied();
        let mut known = Values::default();
        known
            .0
            .extend(free.iter().copied().zip(captured.by_ref().take(free.len())));
        for (var, value) in uses
            .reads
            .iter()
            .zip(captured.by_ref().take(uses.reads.len()))
        {
            inner.define_read(&cx.spec.variables[var.0 as usize].name, value);
        }
        for step in captured.by_ref().take(usize::from(uses.step)) {
            inner.define_read(GLOBAL_STEP, step);
        }
        if let Some((_, numbers)) = &random {
            let mut keys: Vec<Value<'_>> = captured.by_ref().take(1 + numbers.len()).collect();
            let seed = keys.remove(0);
            keys.push(iteration.position);
            inner.randomness(seed, &keys);
        }
        for ((count, _), value) in counts.iter().zip(captured) {
            inner.set_count(count, value);
        }
        known.0.extend(
            scan.carries
                .iter()
                .copied()
                .zip(iteration.carries.iter().copied()),
        );
        known.0.extend(
            scan.elements
                .iter()
                .copied()
                .zip(iteration.elements.iter().copied()),
        );
        let mut inputs = |input: &Input, _: &_, span| {
            Err(Diagnostic::new(
                Code::MisplacedStatement,
                span,
                format!("`{input}` cannot be read in a loop"),
            ))
        };
        if let Err(diagnostic) =
            program::nodes(cx, inner, program, &scan.body, &mut inputs, &mut known)
        {
            failed = Some(diagnostic);
            return (iteration.carries, Vec::new());
        }
        let mut nexts: Vec<Value<'_>> = scan.nexts.iter().map(|id| known.get(*id)).collect();
        if let Some(count) = used.as_ref().and_then(|count| inner.find_count(count)) {
            // Iterations past the count change nothing.
            let counts = iteration.position.less(count);
            nexts = nexts
                .iter()
                .zip(&iteration.carries)
                .map(|(next, carry)| counts.select(*next, *carry))
                .collect();
        }
        (nexts, scan.yields.iter().map(|id| known.get(*id)).collect())
    });
    if let Some(diagnostic) = failed {
        return Err(diagnostic);
    }
    let results: Vec<Value<'g>> = finals.into_iter().chain(yields).collect();
    for (value, id) in results.iter().zip(node.results.iter()) {
        b.name_counts(*value, &program.values[id.0 as usize]);
    }
    Ok(results)
}

/// The free variables of a loop body, and the values it defines.
#[derive(Debug, Default)]
struct FreeVariables {
    used: BTreeSet<ValueId>,
    defined: BTreeSet<ValueId>,
    reads: BTreeSet<VarId>,
    random: bool,
    step: bool,
}

impl FreeVariables {
    fn visit(&mut self, scan: &Scan) {
        self.defined
            .extend(scan.elements.iter().chain(&scan.carries));
        self.used.extend(scan.nexts.iter().chain(&scan.yields));
        for node in &scan.body {
            self.defined.extend(node.results.iter());
            match &node.kind {
                NodeKind::Input(_) | NodeKind::Const(_) => {}
                NodeKind::Step => self.step = true,
                NodeKind::Read(var) => {
                    self.reads.insert(*var);
                }
                NodeKind::Write(_, value) => {
                    self.used.insert(*value);
                }
                NodeKind::Op { op, operands, .. } => {
                    self.random |= op.random;
                    for operand in operands {
                        match operand {
                            Operand::Value(id) => {
                                self.used.insert(*id);
                            }
                            Operand::Values(ids) => self.used.extend(ids),
                            Operand::Attr(_) => {}
                        }
                    }
                }
                NodeKind::Scan(inner) => {
                    self.used.extend(inner.over.iter().chain(&inner.starts));
                    self.visit(inner);
                }
                NodeKind::Grad { y, wrt, seed } => {
                    self.used.extend([y].into_iter().chain(wrt).chain(seed))
                }
                NodeKind::Hessian { y, wrt } => self.used.extend([y, wrt]),
            }
        }
    }
}
