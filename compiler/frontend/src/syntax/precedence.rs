//! Operator precedence: groups a flat chain of operands and operators.

use crate::ast::{Expr, ExprKind, InfixOp};
use crate::diag::{Code, Diagnostic};

/// Groups `first op1 e1 op2 e2 …`. Operators of one precedence make one flat node, so the depth of the result is
/// bounded by the number of precedences.
pub(crate) fn group(first: Expr, rest: Vec<(InfixOp, Expr)>, errors: &mut Vec<Diagnostic>) -> Expr {
    level(0, first, rest, errors)
}

fn level(
    precedence: usize,
    first: Expr,
    rest: Vec<(InfixOp, Expr)>,
    errors: &mut Vec<Diagnostic>,
) -> Expr {
    if rest.is_empty() {
        return first;
    }
    // Split at the operators of this level; what lies between them binds tighter.
    let mut groups = vec![(None, first, Vec::new())];
    for (op, operand) in rest {
        let last = groups.last_mut().expect("the first group is there");
        if op.precedence() == precedence {
            groups.push((Some(op), operand, Vec::new()));
        } else {
            last.2.push((op, operand));
        }
    }
    let mut operands = groups.into_iter().map(|(op, head, tail)| {
        let operand = match precedence {
            InfixOp::TIGHTEST => head,
            _ => level(precedence + 1, head, tail, errors),
        };
        (op, operand)
    });
    let (_, head) = operands.next().expect("the first group is there");
    let mut tail: Vec<(InfixOp, Expr)> = operands.filter_map(|(op, e)| Some((op?, e))).collect();
    let Some((_, last)) = tail.last() else {
        return head;
    };
    let span = head.span.to(last.span);
    if precedence == InfixOp::COMPARE && tail.len() > 1 {
        errors.push(
            Diagnostic::new(Code::Syntax, span, "comparisons do not chain")
                .help("write `a < b && b < c`, or use parentheses"),
        );
        // The rest of the chain would only give follow-up errors.
        tail.truncate(1);
    }
    Expr {
        kind: ExprKind::Infix(Box::new(head), tail),
        span,
    }
}
