//! The cases of `gradients.json`: small graphs, made node by node, and `tf.gradients` and `tf.hessians` of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use trainspec_ir::autodiff::{Cotangent, Request};
use trainspec_ir::build::{Builder, Value};
use trainspec_ir::{DType, Tensor};

use crate::oracle::compare::{Tolerance, same};
use crate::oracle::fields::{Fields, shortened};
use crate::oracle::gradient::{self, Gradient};
use crate::oracle::model::run_graph;
use crate::oracle::ops::optional;
use crate::oracle::report::Findings;
use crate::oracle::tensors::{self, integer, number, tensor};
use crate::oracle::{Engine, run_cases};

/// A case.
#[derive(Debug)]
struct Case<'a> {
    dtype: DType,
    inputs: BTreeMap<String, Tensor>,
    nodes: &'a [Json],
    ys: Vec<String>,
    xs: Vec<String>,
    seeds: Vec<Option<Tensor>>,
    stops: Vec<String>,
    /// Whether the gradient of what is not connected is zero, not none.
    zeros: bool,
    /// The values of nodes.
    values: BTreeMap<String, Tensor>,
    gradients: Vec<Option<Gradient>>,
    kind: Kind,
    tolerance: Tolerance,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Gradients,
    Hessians,
}

impl<'a> Case<'a> {
    fn read(json: &'a Json) -> Result<Case<'a>, String> {
        let fields = Fields::of(json)?;
        fields.text("name")?;
        let expected = Fields::of(fields.need("expected")?)?;
        let (kind, gradients) = match fields.text("kind")? {
            "gradients" => (Kind::Gradients, expected.list("gradients")?),
            "hessians" => (Kind::Hessians, expected.list("hessians")?),
            other => return Err(format!("the kind `{other}` is not known")),
        };
        let case = Case {
            dtype: match fields.get("dtype") {
                Some(_) => tensors::dtype(fields.text("dtype")?)?,
                None => DType::F32,
            },
            inputs: by_name(fields.need("inputs")?)?,
            nodes: fields.list("nodes")?,
            ys: names(fields.need("ys")?)?,
            xs: names(fields.need("xs")?)?,
            seeds: match fields.get("grad_ys") {
                Some(_) => optional(fields.list("grad_ys")?, tensor)?,
                None => Vec::new(),
            },
            stops: match fields.get("stop_gradients") {
                Some(list) => names(list)?,
                None => Vec::new(),
            },
            zeros: match fields
                .get("unconnected_gradients")
                .map(|json| json.as_str())
            {
                None | Some(Some("none")) => false,
                Some(Some("zero")) => true,
                Some(other) => {
                    return Err(format!("`unconnected_gradients` {other:?} is not known"));
                }
            },
            values: match expected.get("values") {
                Some(values) => by_name(values)?,
                None => BTreeMap::new(),
            },
            gradients: optional(gradients, gradient::read)?,
            kind,
            tolerance: Tolerance::of(&fields)?,
        };
        fields.done("a field of the case")?;
        expected.done("a field of `expected`")?;
        match case.gradients.len() == case.xs.len() {
            true => Ok(case),
            false => Err(format!(
                "{} gradients for {} xs",
                case.gradients.len(),
                case.xs.len()
            )),
        }
    }

    fn run(&self, engine: Engine) -> Result<Findings, String> {
        let b = Builder::new("case");
        let nodes = self.build(&b)?;
        for id in self.values.keys() {
            b.result(&format!("value {id}"), *nodes.find(id)?);
        }
        let (ys, xs) = (nodes.all(&self.ys)?, nodes.all(&self.xs)?);
        let gradients: Vec<Option<Cotangent<'_>>> = match self.kind {
            Kind::Gradients => {
                let seed = |seed: &Option<Tensor>| seed.clone().map(|seed| b.constant(seed));
                b.differentiate(&Request {
                    ys,
                    xs: xs.clone(),
                    seeds: self.seeds.iter().map(seed).collect(),
                    stop_gradients: nodes.all(&self.stops)?,
                })
            }
            Kind::Hessians => {
                if !self.seeds.is_empty() || !self.stops.is_empty() {
                    return Err("hessians take neither seeds nor stops".to_owned());
                }
                let sums: Vec<Value<'_>> = ys.iter().map(|y| y.sum(&y.axes())).collect();
                let y = b.sum_of(&sums);
                xs.iter()
                    .map(|x| b.hessian(y, *x).map(Cotangent::Dense))
                    .collect()
            }
        };
        gradient::publish(&b, &gradients);
        let zeros: Vec<Tensor> = xs.iter().map(|x| Tensor::zeros(&x.ty())).collect();
        let results = run_graph(&b.finish(), &self.inputs, engine)?;
        self.compare(&results, &zeros)
    }

    fn compare(
        &self,
        results: &BTreeMap<String, Tensor>,
        zeros: &[Tensor],
    ) -> Result<Findings, String> {
        let mut findings = Findings::default();
        for (id, expected) in &self.values {
            let found = &results[&format!("value {id}")];
            if let Err(wrong) = same(expected, found, self.tolerance) {
                findings.wrong.push(format!("the value of `{id}` {wrong}"));
            }
        }
        for (i, expected) in self.gradients.iter().enumerate() {
            let found = gradient::find(results, i)
                .or_else(|| self.zeros.then(|| Gradient::Dense(zeros[i].clone())));
            let what = match self.kind {
                Kind::Gradients => format!("gradient {i} (`{}`)", self.xs[i]),
                Kind::Hessians => format!("hessian {i} (`{}`)", self.xs[i]),
            };
            gradient::compare(&mut findings, &what, expected, &found, self.tolerance);
        }
        Ok(findings)
    }

    /// The nodes in order.
    fn build<'g>(&self, b: &'g Builder) -> Result<Nodes<'g>, String> {
        let mut nodes = Nodes(BTreeMap::new());
        for json in self.nodes {
            let fields = Fields::of(json)?;
            let id = fields.text("id")?;
            let attrs = Fields::of(fields.need("attrs")?)?;
            let op = fields.text("op")?;
            let inputs = nodes.all(&names(fields.need("inputs")?)?)?;
            fields.done("a field of a node")?;
            let value = match op {
                "input" => {
                    let input = self.inputs.get(id);
                    let input = input.ok_or_else(|| format!("the input `{id}` is missing"))?;
                    b.input(id, &input.ty())
                }
                "gradients" => nested(b, &attrs, &nodes)?,
                op => node(b, self.dtype, op, &inputs, &attrs)
                    .map_err(|wrong| format!("node `{id}`, `{op}`: {wrong}"))?,
            };
            attrs.done("an attribute")?;
            nodes.0.insert(id.to_owned(), value);
        }
        Ok(nodes)
    }
}

/// The values of nodes by their names.
struct Nodes<'g>(BTreeMap<String, Value<'g>>);

impl<'g> Nodes<'g> {
    fn find(&self, id: &str) -> Result<&Value<'g>, String> {
        self.0
            .get(id)
            .ok_or_else(|| format!("there is no node `{id}`"))
    }

    fn all(&self, ids: &[String]) -> Result<Vec<Value<'g>>, String> {
        ids.iter().map(|id| self.find(id).copied()).collect()
    }
}

/// One result of `tf.gradients`, as a node.
fn nested<'g>(b: &'g Builder, attrs: &Fields<'_>, nodes: &Nodes<'g>) -> Result<Value<'g>, String> {
    let ys = nodes.all(&names(attrs.need("ys")?)?)?;
    let xs = nodes.all(&names(attrs.need("xs")?)?)?;
    let index = integer(attrs.need("index")?)? as usize;
    let gradients = b.gradients(&ys, &xs);
    let gradient = gradients.get(index).ok_or("`index` is out of range")?;
    let gradient = gradient.ok_or("a gradient that is a node is none")?;
    Ok(gradient.dense())
}

/// A node of an operation.
fn node<'g>(
    b: &'g Builder,
    dtype: DType,
    op: &str,
    inputs: &[Value<'g>],
    attrs: &Fields<'_>,
) -> Result<Value<'g>, String> {
    let value = match (op, inputs) {
        ("add", [x, y]) => *x + *y,
        ("sub", [x, y]) => *x - *y,
        ("mul", [x, y]) => *x * *y,
        ("div", [x, y]) => *x / *y,
        ("maximum", [x, y]) => x.maximum(*y),
        ("matmul", [x, y]) => x.matmul(*y),
        ("neg", [x]) => -*x,
        ("square", [x]) => x.square(),
        ("sqrt", [x]) => x.sqrt(),
        ("exp", [x]) => x.exp(),
        ("log", [x]) => x.log(),
        ("sin", [x]) => x.sin(),
        ("cos", [x]) => x.cos(),
        ("tanh", [x]) => x.tanh(),
        ("sigmoid", [x]) => x.sigmoid(),
        ("softplus", [x]) => x.softplus(),
        // The constant comes first: a tie has no gradient.
        ("relu", [x]) => b.scalar(x.dtype(), 0.0).maximum(*x),
        ("reduce_sum", [x]) => kept(x.sum(&axes(*x, attrs)?), *x, attrs)?,
        ("reduce_mean", [x]) => kept(x.mean(&axes(*x, attrs)?), *x, attrs)?,
        ("pow", [x]) => x.pow(b.scalar(x.dtype(), number(attrs.need("exponent")?)?)),
        ("scale", [x]) => *x * number(attrs.need("factor")?)?,
        ("stop_gradient", [x]) => x.stop_gradient(),
        ("identity", [x]) => *x,
        ("gather", [x]) => x.take_rows(b.constant(positions(attrs)?)),
        ("concat", several) if !several.is_empty() => {
            b.concat(several, axis(attrs.need("axis")?, several[0].rank())?)
        }
        ("transpose", [x]) => x.transpose(&x.axes().into_iter().rev().collect::<Vec<_>>()),
        ("softmax", [x]) => softmax(*x)?,
        ("reshape", [x]) => x.reshape(&shape(*x, attrs)?),
        ("float_zero", []) => b.scalar(dtype, 0.0),
        (_, inputs) => return Err(format!("is not known with {} inputs", inputs.len())),
    };
    Ok(value)
}

/// Along the last axis.
fn softmax(x: Value<'_>) -> Result<Value<'_>, String> {
    let last = x.rank().checked_sub(1).ok_or("a scalar")?;
    let highest = x.max(&[last]).keep_dims(&[last]).stop_gradient();
    let e = (x - highest).exp();
    Ok(e / e.sum(&[last]).keep_dims(&[last]))
}

/// All axes if `axis` says nothing.
fn axes(x: Value<'_>, attrs: &Fields<'_>) -> Result<Vec<usize>, String> {
    match attrs.get("axis") {
        None => Ok(x.axes()),
        Some(Json::Array(list)) => list.iter().map(|json| axis(json, x.rank())).collect(),
        Some(one) => axis(one, x.rank()).map(|axis| vec![axis]),
    }
}

fn axis(json: &Json, rank: usize) -> Result<usize, String> {
    let n = integer(json)?;
    let axis = if n < 0 { n + rank as i64 } else { n };
    usize::try_from(axis)
        .ok()
        .filter(|axis| *axis < rank)
        .ok_or_else(|| format!("axis {n} of {rank}"))
}

/// A reduced value, its axes kept where `keepdims` says so.
fn kept<'g>(reduced: Value<'g>, x: Value<'g>, attrs: &Fields<'_>) -> Result<Value<'g>, String> {
    match attrs.get("keepdims").and_then(Json::as_bool) {
        Some(true) => Ok(reduced.keep_dims(&axes(x, attrs)?)),
        Some(false) | None => Ok(reduced),
    }
}

fn positions(attrs: &Fields<'_>) -> Result<Tensor, String> {
    let list = attrs.list("indices")?;
    let values = list.iter().map(integer).collect::<Result<Vec<i64>, _>>()?;
    let values: Vec<i32> = values.into_iter().map(|n| n as i32).collect();
    Ok(Tensor::new(&[values.len()], values))
}

/// One size may be -1.
fn shape(x: Value<'_>, attrs: &Fields<'_>) -> Result<Vec<usize>, String> {
    let list = attrs.list("shape")?;
    let sizes = list.iter().map(integer).collect::<Result<Vec<i64>, _>>()?;
    let known: i64 = sizes.iter().filter(|n| **n >= 0).product();
    let all = x.ty().elements() as i64;
    let size = |n: i64| if n < 0 { all / known.max(1) } else { n } as usize;
    Ok(sizes.into_iter().map(size).collect())
}

fn names(json: &Json) -> Result<Vec<String>, String> {
    let wrong = || format!("`{}` is no list of names", shortened(json));
    let list = json.as_array().ok_or_else(wrong)?;
    let name = |json: &Json| json.as_str().map(str::to_owned).ok_or_else(wrong);
    list.iter().map(name).collect()
}

fn by_name(json: &Json) -> Result<BTreeMap<String, Tensor>, String> {
    let map = json
        .as_object()
        .ok_or_else(|| format!("`{}` is no object", shortened(json)))?;
    map.iter()
        .map(|(name, json)| Ok((name.clone(), tensor(json)?)))
        .collect()
}

/// Runs all cases of a file.
///
/// # Panics
///
/// When one of them fails.
pub fn run_file(path: &Path, engine: Engine) {
    run_cases(path, "kind", |json| Case::read(json)?.run(engine));
}
