//! Random training steps: all element types, all elementwise primitives, views, reductions, the patterns that models are made
//! of, scans, convolutions and pools, gathers and scatters; gradients; state that is updated in place.

mod elementwise;
mod gather_scatter;
mod models;
mod scans;
mod shapes;
mod windows;

use trainspec_ir::build::{Builder, Value};
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Tensor};

use crate::choice_sequence::ChoiceSequence;

/// Sizes of dimensions: vector widths, one less and one more, odd ones, and the edge cases 0 and 1.
const SIZES: [usize; 13] = [3, 8, 1, 7, 9, 4, 31, 2, 64, 5, 100, 16, 0];

/// The state of the generator.
struct Mixer<'g, 'c> {
    b: &'g Builder,
    c: ChoiceSequence<'c>,
    /// The values generated so far.
    pool: Vec<Value<'g>>,
    /// The trained variables.
    params: Vec<(String, Value<'g>)>,
    /// The type of most floats.
    float: DType,
    /// The maximum number of elements of a value.
    max_elements: usize,
    inputs: usize,
}

/// Generates a graph: one to ten operations, the gradients of a loss, updates of state.
pub fn make(bytes: &[u8]) -> Graph {
    let mut c = ChoiceSequence(bytes);
    let b = Builder::new("mixed");
    let seed = b.input("seed", &Type::scalar(DType::I64));
    b.randomness(seed, &[seed]);
    let float = c.float();
    // Large enough, now and then, for work to be split between threads.
    let max_elements = if c.rarely(24) { 40_000 } else { 1_500 };
    let mut mixer = Mixer {
        b: &b,
        c,
        pool: Vec::new(),
        params: Vec::new(),
        float,
        max_elements,
        inputs: 0,
    };
    let first = mixer.shape();
    let first = mixer.source(float, &first);
    mixer.pool.push(first);
    for _ in 0..1 + mixer.c.below(10) {
        let value = mixer.operation();
        let value = mixer.small(value);
        mixer.pool.push(value);
    }
    mixer.finish();
    drop(mixer);
    b.finish()
}

impl<'g> Mixer<'g, '_> {
    /// A shape of up to four dimensions that is not too large.
    fn shape(&mut self) -> Vec<usize> {
        let rank = [2, 1, 3, 2, 0, 4][self.c.below(6)];
        let mut shape = Vec::new();
        if self.max_elements > 10_000 && rank > 0 {
            shape.push(self.c.of(&[400, 130, 1000]));
        }
        while shape.len() < rank {
            let count = if self.c.rarely(16) { 13 } else { 12 };
            shape.push(SIZES[self.c.below(count)]);
        }
        while shape.iter().product::<usize>() > self.max_elements {
            let largest = (0..shape.len()).max_by_key(|i| shape[*i]).unwrap_or(0);
            shape[largest] = shape[largest] / 2 + 1;
        }
        shape
    }

    /// A new value of a type: an input, state, or a constant.
    fn source(&mut self, dtype: DType, shape: &[usize]) -> Value<'g> {
        let ty = Type::new(dtype, shape);
        match self.c.below(6) {
            0..=2 => {
                self.inputs += 1;
                self.b.input(&format!("x{}", self.inputs), &ty)
            }
            3 | 4 if dtype.is_float() => self.param(&ty),
            3 => {
                let tensor = (0..ty.elements()).map(|i| (i * 7 % 11) as i64 - 5);
                self.b.constant(Tensor::from_i64s(&ty, tensor))
            }
            4 => self.b.iota(ty.elements()).reshape(shape).cast(dtype),
            _ if dtype.is_float() && self.c.below(2) == 1 => {
                let tensor = (0..ty.elements()).map(|i| ((i * 7 % 11) as f64 - 5.0) * 0.25);
                self.b.constant(Tensor::from_f64s(&ty, tensor))
            }
            _ => {
                let x = self.c.of(&[0.5, 1.0, 0.0, -1.0, 2.0, 3.0]);
                self.b.full(&ty, x)
            }
        }
    }

    /// A trained variable.
    fn param(&mut self, ty: &Type) -> Value<'g> {
        let name = format!("w{}", self.params.len());
        let value = self.b.read(&name, ty);
        self.params.push((name, value));
        value
    }

    /// One of the values generated last.
    fn any(&mut self) -> Value<'g> {
        let n = self.pool.len();
        self.pool[n - 1 - self.c.below(n.min(5))]
    }

    /// A value as [`Mixer::any`] gives it, cast to floats if it has none.
    fn floats(&mut self) -> Value<'g> {
        let x = self.any();
        match x.dtype().is_float() {
            true => x,
            false => x.cast(self.float),
        }
    }

    /// A value of an element type that broadcasts to a shape: an existing one, or new, perhaps with dimensions of 1.
    fn partner(&mut self, dtype: DType, shape: &[usize]) -> Value<'g> {
        let other = self.any();
        let fits = |s: &[usize]| {
            let pairs = shape.iter().rev().zip(s.iter().rev());
            s.len() <= shape.len() && pairs.into_iter().all(|(a, b)| a == b || *b == 1)
        };
        match self.c.below(4) {
            0 | 1 if fits(&other.shape()) => other.cast(dtype),
            0 if other.dtype().is_float() => other.sum(&other.axes()).tanh().cast(dtype),
            2 => self.source(dtype, shape),
            _ => {
                let mut part = shape[self.c.below(shape.len() + 1)..].to_vec();
                for n in &mut part {
                    if self.c.below(3) == 2 {
                        *n = 1;
                    }
                }
                self.source(dtype, &part)
            }
        }
    }

    /// A value that is not too large: a slice of it, or sums.
    fn small(&mut self, value: Value<'g>) -> Value<'g> {
        let mut value = value;
        while value.ty().elements() > self.max_elements {
            let shape = value.shape();
            let largest = (0..shape.len()).max_by_key(|i| shape[*i]).unwrap_or(0);
            value = match value.dtype() != DType::Bool && self.c.below(2) == 1 {
                true => value.sum(&[largest]),
                false => value.narrow(largest, shape[largest] / 3, shape[largest] / 2),
            };
        }
        value
    }

    fn operation(&mut self) -> Value<'g> {
        match self.c.below(16) {
            0 | 1 => self.unary(),
            2..=4 => self.binary(),
            5 => self.mixed_types(),
            6 | 7 => self.view(),
            8 | 9 => self.reduction(),
            10 => self.pattern(),
            11 => self.dense(),
            12 => self.gather_scatter(),
            13 => self.order(),
            14 => self.scan(),
            _ => self.windows(),
        }
    }

    /// Results, a loss, gradients, updates.
    fn finish(&mut self) {
        let b = self.b;
        let mut loss = b.scalar(self.float, 0.0);
        for (i, value) in self.pool.clone().into_iter().enumerate() {
            let last = i + 3 >= self.pool.len();
            if last || self.c.below(4) == 1 {
                b.result(&format!("r{i}"), value);
            }
            if value.dtype().is_float() && (last || self.c.below(3) == 1) {
                let part = match value.dtype() {
                    DType::F16 | DType::Bf16 => value.tanh().mean(&value.axes()),
                    _ => value.tanh().sum(&value.axes()),
                };
                loss = loss + part.cast(self.float) * (0.5 + i as f64 * 0.25);
            }
        }
        b.result("loss", loss);
        let inputs = b.with_graph(|g| {
            let all = g.inputs().filter(|(_, v)| g.ty(*v).dtype.is_float());
            all.map(|(name, v)| (name.to_owned(), v))
                .collect::<Vec<_>>()
        });
        let mut xs: Vec<(String, Value<'g>)> = self.params.clone();
        let trained = xs.len();
        xs.extend(inputs.into_iter().map(|(name, v)| (name, b.value(v))));
        let values: Vec<Value<'g>> = xs.iter().map(|(_, v)| *v).collect();
        let gradients = b.gradients(&[loss], &values);
        for (i, ((name, x), gradient)) in xs.iter().zip(gradients).enumerate() {
            let Some(gradient) = gradient else { continue };
            let gradient = gradient.dense();
            if i < trained {
                self.update(name, *x, gradient);
            } else if self.c.below(2) == 0 {
                b.result(&format!("d{name}"), gradient);
            }
        }
        if self.c.below(4) == 1 {
            let count = b.read("count", &Type::scalar(DType::I64));
            b.write("count", count + 1.0);
        }
        if self.c.rarely(8) && self.params.len() > 1 {
            // Two variables are swapped.
            let (a, b) = (self.params[0].clone(), self.params[1].clone());
            if a.1.ty() == b.1.ty() {
                self.b.write(&a.0, b.1);
                self.b.write(&b.0, a.1);
            }
        }
    }

    /// One step of an optimizer.
    fn update(&mut self, name: &str, w: Value<'g>, gradient: Value<'g>) {
        let b = self.b;
        let ty = w.ty();
        match self.c.below(5) {
            0 => b.write(name, w - 0.1 * gradient),
            1 => {
                let m = b.read(&format!("{name}/momentum"), &ty);
                let next = 0.9 * m + gradient;
                b.write(&format!("{name}/momentum"), next);
                b.write(name, w - 0.1 * next);
            }
            2 => {
                let names = [format!("{name}/m"), format!("{name}/v")];
                let (m, v) = (b.read(&names[0], &ty), b.read(&names[1], &ty));
                let m = 0.9 * m + 0.1 * gradient;
                let v = 0.99 * v.square() + 0.01 * gradient.square();
                b.write(&names[0], m);
                b.write(&names[1], v);
                b.write(name, w - 0.01 * m / (v.sqrt() + 1e-3));
            }
            3 => {
                // A moving average of the value that is written in the same step.
                let mean = b.read(&format!("{name}/average"), &ty);
                let next = w - 0.1
                    * gradient
                        .maximum(gradient.like(-1.0))
                        .minimum(gradient.like(1.0));
                b.write(name, next);
                b.write(&format!("{name}/average"), mean - 0.1 * (mean - next));
            }
            _ => b.result(&format!("d{name}"), gradient),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use trainspec_ir::graph::{NodeKind, verify};
    use trainspec_ir::ops::PRIMS;

    use super::*;
    use crate::search::Search;

    /// Collects the primitives and element types of a graph and its loop bodies.
    fn collect(graph: &Graph, prims: &mut BTreeSet<&'static str>, dtypes: &mut BTreeSet<DType>) {
        dtypes.extend(graph.types.iter().map(|ty| ty.dtype));
        for node in &graph.nodes {
            match &node.kind {
                NodeKind::Prim(prim, _) => drop(prims.insert(prim.name)),
                NodeKind::Scan(scan) => collect(&scan.body, prims, dtypes),
                NodeKind::Input(_) | NodeKind::Const(_) | NodeKind::Read(_) => {}
            }
        }
    }

    #[test]
    fn generates_all_primitives_and_types_and_verifies() {
        let (mut prims, mut dtypes) = (BTreeSet::new(), BTreeSet::new());
        let search = Search { seed: 20_260_101 };
        for number in 0..2_000 {
            let graph = make(&search.bytes(number));
            assert_eq!(verify(&graph), Ok(()), "{graph}");
            collect(&graph, &mut prims, &mut dtypes);
        }
        let missing: Vec<_> = PRIMS.iter().filter(|p| !prims.contains(p.name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(dtypes.len(), DType::ALL.len() - 1, "{dtypes:?}"); // all but strings
    }

    #[test]
    fn any_bytes_generate_a_verified_graph() {
        for bytes in [&[][..], &[0], &[255; 300], &[23; 40]] {
            assert_eq!(verify(&make(bytes)), Ok(()));
        }
    }
}
