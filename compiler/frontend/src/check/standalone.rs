//! Optimizers for variables that no spec declares: those of a graph that is built in Rust.
//!
//! In: the call of an optimizer, definitions of its own, and variables with their names and types. Out: a typed spec without a model,
//! whose only group updates these variables.

use std::collections::{BTreeMap, BTreeSet};

use trainspec_ir::{Span, TensorType};

use crate::ast::{self, SettingValue};
use crate::check::Checker;
use crate::check::scope::{Frame, FrameKind};
use crate::check::value::Value;
use crate::diag::Diagnostic;
use crate::source::{NoFiles, Sources};
use crate::syntax;
use crate::typed::{Role, Spec, Train, VarId, Variable};

/// Checks an optimizer on some variables. `taken` are names of scalars that other optimizers of the graph keep: those of this one are
/// numbered, as a second TensorFlow optimizer's are.
///
/// ```
/// use trainspec_frontend::check::optimizer;
/// use trainspec_ir::{DType, TensorType};
///
/// let variables = [("layer/w".to_owned(), TensorType::scalar(DType::F32))];
/// let spec = optimizer("momentum(0.1, momentum: 0.9)", "", &variables, &Default::default()).unwrap();
/// let group = &spec.train.unwrap().groups[0];
/// assert_eq!(group.updates[0].slots[0].state_name("layer/w"), "layer/w/Momentum");
/// ```
pub fn optimizer(
    call: &str,
    definitions: &str,
    variables: &[(String, TensorType)],
    taken: &BTreeSet<String>,
) -> Result<Spec, Vec<Diagnostic>> {
    let mut sources = Sources::default();
    let own = sources.add("definitions", definitions);
    let root = sources.add("optimizer", call);
    let (parsed, errors) = syntax::parse(own, definitions);
    if !errors.is_empty() {
        return Err(errors);
    }
    let expr = syntax::parse_expr(root, call)?;
    let mut checker = Checker::new(&mut sources);
    let mut files = BTreeMap::new();
    checker.take_items(own, parsed.file, &NoFiles, &mut files, 0);
    checker.evaluate_constants();
    let train = checker.lone_optimizer(expr, variables, taken);
    let errors: Vec<Diagnostic> = checker
        .errors
        .into_iter()
        .filter(Diagnostic::is_error)
        .collect();
    match train {
        Some(train) if errors.is_empty() => Ok(Spec {
            name: "optimizer".to_owned(),
            edition: 1,
            text: "".into(),
            constants: Vec::new(),
            data: Vec::new(),
            model: None,
            variables: checker.store.variables,
            train: Some(train),
            warm_start: None,
            evals: Vec::new(),
            hooks: Vec::new(),
            hooks_off: Vec::new(),
        }),
        _ => Err(errors),
    }
}

impl Checker<'_> {
    fn lone_optimizer(
        &mut self,
        call: ast::Expr,
        variables: &[(String, TensorType)],
        taken: &BTreeSet<String>,
    ) -> Option<Train> {
        let span = call.span;
        for (name, ty) in variables {
            let init = self.initializer(Value::Float(0.0), ty, name, span)?;
            self.store.variables.push(Variable {
                name: name.clone(),
                role: Role::Param,
                ty: ty.clone(),
                init,
                span,
            });
        }
        let setting = ast::Setting {
            docs: Vec::new(),
            word: ast::Name {
                text: "optimizer".to_owned(),
                span: Span {
                    end: span.start,
                    ..span
                },
            },
            value: SettingValue::Value(call),
            clauses: Vec::new(),
            body: None,
            span,
        };
        let frame = Frame::new(FrameKind::Train, String::new());
        let (group, rates) = self.in_program(|c| c.framed(frame, |c| c.group(&setting)));
        let group = group?;
        self.store.rates = rates.values.iter().map(|ty| (**ty).clone()).collect();
        let all: Vec<VarId> = (0..variables.len() as u32).map(VarId).collect();
        let group = self.expand_group(&group, String::new(), &all, &mut taken.clone());
        Some(Train {
            groups: vec![group],
            rates,
            ..Train::default()
        })
    }
}
