//! Textual form of the typed spec, for `emit --stage typed` and for goldens.

use std::fmt::{self, Display, Formatter, Write};

use trainspec_ir::ops::Arg;

use crate::syntax::quote;
use crate::typed::print_settings::write_plain_stage;
use crate::typed::*;

/// The spec as text. Values are numbered in each program from zero.
pub fn print(spec: &Spec) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_spec(&mut out, spec);
    out
}

fn write_spec(out: &mut String, spec: &Spec) -> fmt::Result {
    writeln!(out, "spec {}, edition {}", spec.name, spec.edition)?;
    if !spec.constants.is_empty() {
        writeln!(out)?;
    }
    for (name, value) in &spec.constants {
        writeln!(out, "const {name} = {value}")?;
    }
    for data in &spec.data {
        write_data(out, data)?;
    }
    if !spec.variables.is_empty() {
        writeln!(out, "\nvariables {{")?;
        for v in &spec.variables {
            let role = match v.role {
                Role::Param => "param",
                Role::State => "state",
            };
            writeln!(out, "  {role} {}: {} = {}", v.name, v.ty, v.init.name)?;
        }
        writeln!(out, "}}")?;
    }
    if let Some(model) = &spec.model {
        write_mode(out, "train", &model.inputs, &model.train, spec)?;
        write_mode(out, "eval", &model.inputs, &model.eval, spec)?;
    }
    if let Some(train) = &spec.train {
        write_train(out, train, spec)?;
    }
    if let Some(warm) = &spec.warm_start {
        warm.write(out, spec)?;
    }
    for eval in &spec.evals {
        write_eval(out, eval)?;
    }
    if !spec.hooks.is_empty() || !spec.hooks_off.is_empty() {
        writeln!(out, "\nhooks {{")?;
        for hook in &spec.hooks_off {
            writeln!(out, "  {} none", hook.word())?;
        }
        for hook in &spec.hooks {
            writeln!(out, "  {}", hook.kind)?;
            if let HookKind::Summary { values, .. } = &hook.kind {
                for value in values {
                    writeln!(out, "    {value}")?;
                }
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

fn write_data(out: &mut String, data: &DataSet) -> fmt::Result {
    writeln!(out, "\ndata {} {{", data.name)?;
    writeln!(out, "  source {}", data.source)?;
    for part in data.source.parts() {
        let mut text = String::new();
        write_data(&mut text, part)?;
        for line in text.lines().skip(1) {
            writeln!(out, "    {line}")?;
        }
    }
    for f in &data.features {
        let word = if f.is_sequence { "sequence" } else { "feature" };
        writeln!(out, "  {word} {}", FeatureText(f))?;
    }
    let (mut stages, mut evaluation) = (String::new(), String::new());
    write_stages(&mut stages, 2, &data.stages)?;
    write_stages(&mut evaluation, 2, &data.eval_stages)?;
    out.push_str(&stages);
    if evaluation != stages {
        writeln!(out, "  evaluation {{")?;
        write_stages(out, 4, &data.eval_stages)?;
        writeln!(out, "  }}")?;
    }
    for (name, ty) in &data.elements {
        writeln!(out, "  gives {name}: {ty}")?;
    }
    writeln!(out, "}}")
}

fn write_stages(out: &mut String, indent: usize, stages: &[Stage]) -> fmt::Result {
    for stage in stages {
        write!(out, "{:indent$}", "")?;
        match &stage.kind {
            StageKind::Map {
                name,
                program,
                value,
            } => {
                writeln!(out, "map {name} = {value} {{")?;
                write_nodes(out, indent + 2, program, &program.nodes, &[])?;
                writeln!(out, "{:indent$}}}", "")?;
            }
            StageKind::Filter { program, value } => {
                writeln!(out, "filter {value} {{")?;
                write_nodes(out, indent + 2, program, &program.nodes, &[])?;
                writeln!(out, "{:indent$}}}", "")?;
            }
            plain => writeln!(out, "{}", PlainStage(plain))?,
        }
    }
    Ok(())
}

fn write_mode(
    out: &mut String,
    name: &str,
    inputs: &[Feature],
    mode: &Mode,
    spec: &Spec,
) -> fmt::Result {
    let inputs: Vec<String> = inputs.iter().map(|i| FeatureText(i).to_string()).collect();
    writeln!(out, "\nmodel {name} ({}) {{", inputs.join(", "))?;
    write_nodes(out, 2, &mode.program, &mode.program.nodes, &spec.variables)?;
    for (what, list) in [
        ("loss", &mode.losses),
        ("metric", &mode.metrics),
        ("output", &mode.outputs),
    ] {
        for (name, value) in list {
            writeln!(out, "  {what} {name} = {value}")?;
        }
    }
    for words in &mode.words {
        writeln!(out, "  words of {} in {}", words.output, words.vocabulary)?;
    }
    writeln!(out, "}}")
}

fn write_train(out: &mut String, train: &Train, spec: &Spec) -> fmt::Result {
    writeln!(out, "\ntrain {{")?;
    if let Some(data) = &train.data {
        writeln!(out, "  data {data}")?;
    }
    writeln!(out, "  seed {}", train.seed)?;
    if let Some(until) = train.until {
        writeln!(out, "  until {until}")?;
    }
    if train.accumulate != 1 {
        writeln!(out, "  accumulate {}", train.accumulate)?;
    }
    if !train.rates.nodes.is_empty() {
        writeln!(out, "  rates {{")?;
        write_nodes(out, 4, &train.rates, &train.rates.nodes, &[])?;
        writeln!(out, "  }}")?;
    }
    for (name, value) in &train.schedules {
        writeln!(out, "  schedule {name} = {value}")?;
    }
    let names = |vars: &[VarId]| {
        let names: Vec<&str> = vars
            .iter()
            .map(|v| spec.variables[v.0 as usize].name.as_str())
            .collect();
        names.join(", ")
    };
    for group in &train.groups {
        writeln!(
            out,
            "  optimizer {} minimizing {} {{",
            group.optimizer, group.loss
        )?;
        if let Some(lazy) = group.options.lazy {
            writeln!(out, "    lazy: {}", lazy.on)?;
        }
        writeln!(out, "    gate: {}", group.options.gate)?;
        writeln!(out, "    aggregate: {}", group.options.aggregate)?;
        for scalar in &group.scalars {
            writeln!(
                out,
                "    scalar {} = {} then {} {{",
                scalar.name, scalar.start, scalar.next
            )?;
            write_nodes(out, 6, &scalar.program, &scalar.program.nodes, &[])?;
            writeln!(out, "    }}")?;
        }
        for update in &group.updates {
            let name = &spec.variables[update.variable.0 as usize].name;
            writeln!(out, "    update {name} {{")?;
            for slot in &update.slots {
                writeln!(
                    out,
                    "      slot {}: {} = {}",
                    slot.state_name(name),
                    slot.ty,
                    slot.init.name
                )?;
            }
            write_nodes(out, 6, &update.program, &update.program.nodes, &[])?;
            for (name, value) in &update.writes {
                writeln!(out, "      {name} <- {value}")?;
            }
            writeln!(out, "    }}")?;
        }
        writeln!(out, "  }}")?;
    }
    if !train.frozen.is_empty() {
        writeln!(out, "  frozen {}", names(&train.frozen))?;
    }
    for clip in &train.clips {
        writeln!(
            out,
            "  clip {} for {} {{",
            clip.kind,
            names(&clip.variables)
        )?;
        write_nodes(out, 4, &clip.program, &clip.program.nodes, &[])?;
        let values: Vec<String> = clip.values.iter().map(ToString::to_string).collect();
        writeln!(out, "    give {}", values.join(", "))?;
        writeln!(out, "  }}")?;
    }
    for average in &train.averages {
        match &average.source {
            Averaged::Variable(var) => writeln!(out, "  average of {} {{", names(&[*var]))?,
            Averaged::Value(name, value) => writeln!(out, "  average of {name} {value} {{")?,
        }
        write_nodes(out, 4, &average.program, &average.program.nodes, &[])?;
        for (state, value) in average.state.iter().zip(&average.values) {
            writeln!(out, "    {}: {} <- {value}", state.name, state.ty)?;
        }
        writeln!(out, "  }}")?;
    }
    match train.loss_scale {
        None => {}
        Some(LossScale::Fixed(scale)) => writeln!(out, "  loss_scale fixed({scale})")?,
        Some(LossScale::Dynamic {
            initial,
            growth_steps,
            multiplier,
        }) => writeln!(
            out,
            "  loss_scale dynamic({initial}, {growth_steps}, {multiplier})"
        )?,
    }
    writeln!(out, "}}")
}

fn write_eval(out: &mut String, eval: &Eval) -> fmt::Result {
    match &eval.name {
        Some(name) => writeln!(out, "\neval {name} {{")?,
        None => writeln!(out, "\neval {{")?,
    }
    writeln!(out, "  data {}", eval.data)?;
    if eval.with_ema {
        writeln!(out, "  with ema")?;
    }
    if !eval.metrics.is_empty() {
        writeln!(out, "  metrics {}", eval.metrics.join(", "))?;
    }
    if let Some(every) = eval.every {
        writeln!(out, "  every {every}")?;
    }
    if let Some(steps) = eval.steps {
        writeln!(out, "  steps {steps}")?;
    }
    if let Some(interval) = eval.start_after {
        writeln!(out, "  start_after {interval}")?;
    }
    writeln!(out, "}}")
}

pub(super) fn write_nodes(
    out: &mut String,
    indent: usize,
    program: &Program,
    nodes: &[Node],
    variables: &[Variable],
) -> fmt::Result {
    let variable = |id: &VarId| match variables.get(id.0 as usize) {
        Some(v) => v.name.clone(),
        None => format!("variable {}", id.0),
    };
    for node in nodes {
        write!(out, "{:indent$}", "")?;
        let types = node
            .results
            .iter()
            .map(|r| program.values[r.0 as usize].to_string())
            .collect::<Vec<_>>()
            .join(", ");
        if node.results.count > 0 {
            let results: Vec<ValueId> = node.results.iter().collect();
            write!(out, "{} = ", Ids(&results))?;
        }
        match &node.kind {
            NodeKind::Input(name) => writeln!(out, "input {name} : {types}")?,
            NodeKind::Const(value) => writeln!(out, "const {value} : {types}")?,
            NodeKind::Step => writeln!(out, "step : {types}")?,
            NodeKind::Read(var) => writeln!(out, "read {} : {types}", variable(var))?,
            NodeKind::Write(var, value) => writeln!(out, "write {} <- {value}", variable(var))?,
            NodeKind::Op { op, operands, site } => {
                write!(out, "{}(", op.name)?;
                let mut first = true;
                for (param, operand) in op.params.iter().zip(operands) {
                    let text = match operand {
                        Operand::Value(v) => v.to_string(),
                        Operand::Values(v) => format!("[{}]", Ids(v)),
                        Operand::Attr(Arg::Absent) => continue,
                        Operand::Attr(arg) if param.default_arg().as_ref() == Some(arg) => {
                            continue;
                        }
                        Operand::Attr(arg) => format!("{}: {}", param.name, AttrText(arg)),
                    };
                    write!(out, "{}{text}", if first { "" } else { ", " })?;
                    first = false;
                }
                write!(out, ")")?;
                if let Some(site) = site {
                    write!(out, " at {}", quote(site))?;
                }
                writeln!(out, " : {types}")?;
            }
            NodeKind::Grad { y, wrt, seed } => {
                write!(out, "grad({y}, wrt: {}", Ids(wrt))?;
                if let Some(seed) = seed {
                    write!(out, ", seed: {seed}")?;
                }
                writeln!(out, ") : {types}")?;
            }
            NodeKind::Hessian { y, wrt } => writeln!(out, "hessian({y}, wrt: {wrt}) : {types}")?,
            NodeKind::Scan(scan) => {
                write!(out, "scan {} in {}", Ids(&scan.elements), Ids(&scan.over))?;
                for (carry, start) in scan.carries.iter().zip(&scan.starts) {
                    write!(out, ", {carry} = {start}")?;
                }
                writeln!(out, " : {types} {{")?;
                write_nodes(out, indent + 2, program, &scan.body, variables)?;
                write!(out, "{:indent$}  next {}", "", Ids(&scan.nexts))?;
                if !scan.yields.is_empty() {
                    write!(out, " yield {}", Ids(&scan.yields))?;
                }
                writeln!(out, "\n{:indent$}}}", "")?;
            }
        }
    }
    Ok(())
}

struct Ids<'a>(&'a [ValueId]);

impl Display for Ids<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, id) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{id}")?;
        }
        Ok(())
    }
}

impl Display for ValueId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl Display for Const {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Const::Int(n) => write!(f, "{n}"),
            Const::Float(x) => write!(f, "{x:?}"),
            Const::Bool(b) => write!(f, "{b}"),
            Const::Str(t) => f.write_str(&quote(t)),
        }
    }
}

struct FeatureText<'a>(&'a Feature);

impl Display for FeatureText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let feature = self.0;
        write!(f, "{}: {}", feature.name, feature.ty)?;
        if !feature.columns.is_empty() {
            let columns: Vec<String> = feature.columns.iter().map(|c| quote(c)).collect();
            write!(f, " as [{}]", columns.join(", "))?;
        } else if feature.key != feature.name {
            write!(f, " as {}", quote(&feature.key))?;
        }
        if let Some((low, high)) = feature.bounds {
            write!(f, " in {low}..{high}")?;
        }
        if let Some(default) = &feature.default {
            write!(f, " = {default}")?;
        }
        Ok(())
    }
}

struct AttrText<'a>(&'a Arg);

impl Display for AttrText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Arg::Absent => f.write_str("none"),
            Arg::Tensor(t) => write!(f, "{t}"),
            Arg::Tensors(list) => write!(f, "{} tensors", list.len()),
            Arg::Int(n) => write!(f, "{n}"),
            Arg::Ints(list) => {
                let list: Vec<String> = list.iter().map(|n| n.to_string()).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Arg::Pairs(list) => {
                let list: Vec<String> = list.iter().map(|(a, b)| format!("({a}, {b})")).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Arg::Float(x) => write!(f, "{x:?}"),
            Arg::Bool(b) => write!(f, "{b}"),
            Arg::Word(w) => f.write_str(&quote(w)),
            Arg::DType(d) => write!(f, "{d}"),
        }
    }
}

struct PlainStage<'a>(&'a StageKind);

impl Display for PlainStage<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_plain_stage(f, self.0)
    }
}
