//! The methods of a value: one for each primitive (elementwise, reductions, reshapes, indexing).

use crate::build::operators::broadcast_all;
use crate::build::{Builder, Value};
use crate::graph::{Attr, Prim, Type, ValueId};
use crate::ops::prims;
use crate::types::{DType, TensorType};

macro_rules! unary {
    ($($(#[doc = $doc:literal])* $method:ident: $prim:ident),* $(,)?) => {
        impl<'g> Value<'g> {
            $($(#[doc = $doc])*
            pub fn $method(self) -> Value<'g> {
                self.apply(&prims::$prim)
            })*
        }
    };
}

unary! {
    /// |x|.
    abs: ABS,
    /// arccos x.
    acos: ACOS,
    /// arcosh x.
    acosh: ACOSH,
    /// arcsin x.
    asin: ASIN,
    /// arsinh x.
    asinh: ASINH,
    /// arctan x.
    atan: ATAN,
    /// artanh x.
    atanh: ATANH,
    /// ⌈x⌉.
    ceil: CEIL,
    /// cos x.
    cos: COS,
    /// cosh x.
    cosh: COSH,
    /// The derivative of ln Γ.
    digamma: DIGAMMA,
    /// The error function.
    erf: ERF,
    /// 1 - erf x.
    erfc: ERFC,
    /// The inverse of the error function.
    erfinv: ERFINV,
    /// eˣ.
    exp: EXP,
    /// eˣ - 1.
    expm1: EXPM1,
    /// ⌊x⌋.
    floor: FLOOR,
    /// Whether an element is neither infinite nor NaN.
    is_finite: IS_FINITE,
    /// Whether an element is NaN.
    is_nan: IS_NAN,
    /// ln |Γ(x)|.
    lgamma: LGAMMA,
    /// ln x.
    log: LOG,
    /// ln (1 + x).
    log1p: LOG1P,
    /// Not x.
    logical_not: LOGICAL_NOT,
    /// The nearest integer, ties to even.
    round: ROUND,
    /// 1 / √x.
    rsqrt: RSQRT,
    /// 1 / (1 + e⁻ˣ).
    sigmoid: SIGMOID,
    /// -1, 0 or 1.
    sign: SIGN,
    /// sin x.
    sin: SIN,
    /// sinh x.
    sinh: SINH,
    /// ln (1 + eˣ).
    softplus: SOFTPLUS,
    /// √x.
    sqrt: SQRT,
    /// x, through which no gradient flows.
    stop_gradient: STOP_GRADIENT,
    /// tan x.
    tan: TAN,
    /// tanh x.
    tanh: TANH,
}

macro_rules! binary {
    ($($(#[doc = $doc:literal])* $method:ident: $prim:ident),* $(,)?) => {
        impl<'g> Value<'g> {
            $($(#[doc = $doc])*
            pub fn $method(self, other: Value<'g>) -> Value<'g> {
                self.elementwise(&prims::$prim, &[other])
            })*
        }
    };
}

binary! {
    /// The four-quadrant arctangent: the angle of the point (other, self).
    atan2: ATAN2,
    /// self = other.
    equal: EQUAL,
    /// ⌊self / other⌋.
    floordiv: FLOORDIV,
    /// self - other ⌊self / other⌋.
    floormod: FLOORMOD,
    /// self > other.
    greater: GREATER,
    /// self ≥ other.
    greater_equal: GREATER_EQUAL,
    /// self < other.
    less: LESS,
    /// self ≤ other.
    less_equal: LESS_EQUAL,
    /// Logical conjunction.
    logical_and: LOGICAL_AND,
    /// Logical disjunction.
    logical_or: LOGICAL_OR,
    /// The larger; NaN where one is NaN.
    maximum: MAXIMUM,
    /// The smaller; NaN where one is NaN.
    minimum: MINIMUM,
    /// self ≠ other.
    not_equal: NOT_EQUAL,
    /// selfᵒᵗʰᵉʳ.
    pow: POW,
    /// The quotient truncated towards zero.
    truncatediv: TRUNCATEDIV,
    /// The remainder of [`Value::truncatediv`].
    truncatemod: TRUNCATEMOD,
}

macro_rules! reduction {
    ($($(#[doc = $doc:literal])* $method:ident: $prim:ident),* $(,)?) => {
        impl<'g> Value<'g> {
            $($(#[doc = $doc])*
            pub fn $method(self, axes: &[usize]) -> Value<'g> {
                let mut axes = axes.to_vec();
                axes.sort_unstable();
                axes.dedup();
                self.builder.prim(&prims::$prim, &[self], vec![Attr::Sizes(axes)])[0]
            })*
        }
    };
}

reduction! {
    /// Whether all are true, over the axes, which are removed.
    all: REDUCE_ALL,
    /// Whether one is true, over the axes, which are removed.
    any: REDUCE_ANY,
    /// The largest, over the axes, which are removed.
    max: REDUCE_MAX,
    /// The smallest, over the axes, which are removed.
    min: REDUCE_MIN,
    /// The product over the axes, which are removed.
    prod: REDUCE_PROD,
    /// The sum over the axes, which are removed.
    sum: REDUCE_SUM,
}

impl<'g> Value<'g> {
    /// The builder it belongs to.
    pub fn builder(self) -> &'g Builder {
        self.builder
    }

    /// Its id.
    pub fn id(self) -> ValueId {
        self.id
    }

    /// Its type.
    pub fn ty(self) -> Type {
        self.builder.graph.borrow().ty(self.id).clone()
    }

    /// Its dimensions.
    pub fn shape(self) -> Vec<usize> {
        self.ty().shape
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        self.builder.graph.borrow().ty(self.id).dtype
    }

    /// How many dimensions it has.
    pub fn rank(self) -> usize {
        self.builder.graph.borrow().ty(self.id).rank()
    }

    /// All its axes.
    pub fn axes(self) -> Vec<usize> {
        (0..self.rank()).collect()
    }

    /// Its type as shape rules see it, with run-time counts.
    pub fn tensor_type(self) -> TensorType {
        let mut ty = self.ty().tensor_type();
        if let Some(counts) = self.builder.counted.borrow().get(&self.id) {
            for (dim, count) in ty.shape.0.iter_mut().zip(counts) {
                dim.count.clone_from(count);
            }
        }
        ty
    }

    /// x².
    pub fn square(self) -> Value<'g> {
        self * self
    }

    /// The derivative of [`Value::digamma`], `order` times.
    pub fn polygamma(self, order: usize) -> Value<'g> {
        self.builder
            .prim(&prims::POLYGAMMA, &[self], vec![Attr::Size(order)])[0]
    }

    /// `yes` where this is true, `no` elsewhere.
    pub fn select(self, yes: Value<'g>, no: Value<'g>) -> Value<'g> {
        self.elementwise(&prims::SELECT, &[yes, no])
    }

    /// The elements in another type, as Rust's `as` converts them.
    pub fn cast(self, dtype: DType) -> Value<'g> {
        if self.dtype() == dtype {
            return self;
        }
        self.builder
            .prim(&prims::CAST, &[self], vec![Attr::DType(dtype)])[0]
    }

    /// Its own value, but gradients flow to `surrogate` instead.
    pub fn straight_through(self, surrogate: Value<'g>) -> Value<'g> {
        self.elementwise(&prims::STRAIGHT_THROUGH, &[surrogate])
    }

    /// Its own value, if all elements of this tensor of integers are in `low..high`; else the run fails, naming `what`.
    pub fn bounded(self, low: i64, high: i64, what: &str) -> Value<'g> {
        let attrs = vec![
            Attr::Int(low),
            Attr::Int(high),
            Attr::String(what.to_owned()),
        ];
        self.builder.prim(&prims::BOUNDED, &[self], attrs)[0]
    }

    /// True, a scalar, if all elements of this tensor of floats are finite; else the run fails, and the error has the name. Elements
    /// past a run-time count are not checked.
    pub fn check_finite(self, name: &str) -> Value<'g> {
        let b = self.builder;
        let mut checked = self;
        let counts = b.counts_of(self).into_iter().flatten().enumerate();
        for (axis, count) in counts.filter_map(|(axis, count)| Some((axis, count?))) {
            let shape = self.shape();
            let mut along = vec![1; shape.len()];
            along[axis] = shape[axis];
            let valid = b.iota(shape[axis]).less(count).reshape(&along);
            checked = valid.select(checked, checked.like(0.0));
        }
        b.prim(
            &prims::CHECK_FINITE,
            &[checked],
            vec![Attr::String(name.to_owned())],
        )[0]
    }

    /// Repeated along dimensions of size 1 and along new leading ones, to the shape.
    pub fn broadcast(self, shape: &[usize]) -> Value<'g> {
        if self.shape() == shape {
            return self;
        }
        self.builder.prim(
            &prims::BROADCAST,
            &[self],
            vec![Attr::Sizes(shape.to_vec())],
        )[0]
    }

    /// The elements, in row-major order, in another shape.
    pub fn reshape(self, shape: &[usize]) -> Value<'g> {
        if self.shape() == shape {
            return self;
        }
        self.builder
            .prim(&prims::RESHAPE, &[self], vec![Attr::Sizes(shape.to_vec())])[0]
    }

    /// With its dimensions in another order: dimension `i` of the result is dimension `order[i]`.
    pub fn transpose(self, order: &[usize]) -> Value<'g> {
        if order.iter().enumerate().all(|(i, n)| i == *n) && order.len() == self.rank() {
            return self;
        }
        self.builder.prim(
            &prims::TRANSPOSE,
            &[self],
            vec![Attr::Sizes(order.to_vec())],
        )[0]
    }

    /// With a new dimension of size 1 before dimension `axis`.
    pub fn expand(self, axis: usize) -> Value<'g> {
        let mut shape = self.shape();
        shape.insert(axis, 1);
        self.reshape(&shape)
    }

    /// With one dimension moved to another position.
    pub fn move_axis(self, from: usize, to: usize) -> Value<'g> {
        let mut order = self.axes();
        let axis = order.remove(from);
        order.insert(to, axis);
        self.transpose(&order)
    }

    /// In each dimension `size` elements from `begin` on, every `stride`-th.
    pub fn slice(self, begin: &[usize], size: &[usize], stride: &[usize]) -> Value<'g> {
        if self.shape() == size {
            return self;
        }
        let attrs = [begin, size, stride]
            .map(|s| Attr::Sizes(s.to_vec()))
            .to_vec();
        self.builder.prim(&prims::SLICE, &[self], attrs)[0]
    }

    /// `size` elements from `begin` on along one axis.
    pub fn narrow(self, axis: usize, begin: usize, size: usize) -> Value<'g> {
        let (mut begins, mut sizes) = (vec![0; self.rank()], self.shape());
        begins[axis] = begin;
        sizes[axis] = size;
        self.slice(&begins, &sizes, &vec![1; self.rank()])
    }

    /// In each dimension `low` elements of `value` (a scalar) before, `high` after, and `interior` between all elements.
    pub fn pad(
        self,
        value: Value<'g>,
        low: &[usize],
        high: &[usize],
        interior: &[usize],
    ) -> Value<'g> {
        if [low, high, interior]
            .iter()
            .all(|s| s.iter().all(|n| *n == 0))
        {
            return self;
        }
        let attrs = [low, high, interior]
            .map(|s| Attr::Sizes(s.to_vec()))
            .to_vec();
        self.builder.prim(&prims::PAD, &[self, value], attrs)[0]
    }

    /// Reversed along axes.
    pub fn reverse(self, axes: &[usize]) -> Value<'g> {
        if axes.is_empty() {
            return self;
        }
        self.builder
            .prim(&prims::REVERSE, &[self], vec![Attr::Sizes(axes.to_vec())])[0]
    }

    /// A reduced value with the axes it was reduced over kept as dimensions of size 1 (`keepdims`).
    pub fn keep_dims(self, axes: &[usize]) -> Value<'g> {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        let mut shape = self.shape();
        axes.iter().for_each(|axis| shape.insert(*axis, 1));
        self.reshape(&shape)
    }

    /// The mean over the axes, which are removed.
    pub fn mean(self, axes: &[usize]) -> Value<'g> {
        let shape = self.shape();
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        let n: usize = axes.iter().map(|a| shape[*a]).product();
        self.sum(&axes) / n as f64
    }

    /// The VJP of a broadcast from `shape` to the value's own: the sum over the axes that were broadcast.
    pub fn unbroadcast(self, shape: &[usize]) -> Value<'g> {
        let own = self.shape();
        let new = own.len() - shape.len();
        let grown = |i: &usize| *i < new || (shape[*i - new] == 1 && own[*i] != 1);
        let axes: Vec<usize> = (0..own.len()).filter(grown).collect();
        if axes.is_empty() {
            self
        } else {
            self.sum(&axes).reshape(shape)
        }
    }

    /// Cumulative sums (a prefix scan) along an axis.
    pub fn cumsum(self, axis: usize, exclusive: bool, reverse: bool) -> Value<'g> {
        let attrs = vec![Attr::Size(axis), Attr::Flag(exclusive), Attr::Flag(reverse)];
        self.builder.prim(&prims::CUMSUM, &[self], attrs)[0]
    }

    /// The position (i64) of the first of the largest along an axis, which is removed.
    pub fn argmax(self, axis: usize) -> Value<'g> {
        self.builder
            .prim(&prims::ARGMAX, &[self], vec![Attr::Size(axis)])[0]
    }

    /// The position (i64) of the first of the smallest along an axis, which is removed.
    pub fn argmin(self, axis: usize) -> Value<'g> {
        self.builder
            .prim(&prims::ARGMIN, &[self], vec![Attr::Size(axis)])[0]
    }

    /// The positions (i64) of the elements along an axis in sorted order; the sort is stable, NaN comes last.
    pub fn argsort(self, axis: usize, descending: bool) -> Value<'g> {
        let attrs = vec![Attr::Size(axis), Attr::Flag(descending)];
        self.builder.prim(&prims::ARGSORT, &[self], attrs)[0]
    }

    /// The matrix product of the last two dimensions; the batch dimensions before them must be equal, or the other has none.
    pub fn matmul(self, other: Value<'g>) -> Value<'g> {
        self.matmul_with(other, false, false)
    }

    /// [`Value::matmul`] with either operand transposed.
    pub fn matmul_with(
        self,
        other: Value<'g>,
        transpose_self: bool,
        transpose_other: bool,
    ) -> Value<'g> {
        let (a, b) = (self.shape(), other.shape());
        if a.len() > 2 && b.len() == 2 && !transpose_self {
            // One large product instead of a batch of small ones with the same right side.
            let rows: usize = a[..a.len() - 1].iter().product();
            let flat =
                self.reshape(&[rows, a[a.len() - 1]])
                    .matmul_with(other, false, transpose_other);
            let mut shape = a[..a.len() - 1].to_vec();
            shape.push(flat.shape()[1]);
            return flat.reshape(&shape);
        }
        let attrs = vec![Attr::Flag(transpose_self), Attr::Flag(transpose_other)];
        self.builder.prim(&prims::MATMUL, &[self, other], attrs)[0]
    }

    /// Gathers the rows (slices along the leading dimension) at indices; the run fails where one is out of range.
    pub fn take(self, indices: Value<'g>) -> Value<'g> {
        self.builder
            .prim(&prims::TAKE, &[self, indices], vec![Attr::Flag(false)])[0]
    }

    /// [`Value::take`] with a sparse gradient (`IndexedSlices`), as of an embedding lookup.
    pub fn take_rows(self, indices: Value<'g>) -> Value<'g> {
        self.builder
            .prim(&prims::TAKE, &[self, indices], vec![Attr::Flag(true)])[0]
    }

    /// This tensor with `rows` added to its rows at indices; the rows of a repeated index all add up.
    pub fn scatter_add(self, indices: Value<'g>, rows: Value<'g>) -> Value<'g> {
        self.builder
            .prim(&prims::SCATTER_ADD, &[self, indices, rows], Vec::new())[0]
    }

    /// This tensor with its rows at indices replaced by `rows`, the last of a repeated index winning.
    pub fn scatter_set(self, indices: Value<'g>, rows: Value<'g>) -> Value<'g> {
        self.builder
            .prim(&prims::SCATTER_SET, &[self, indices, rows], Vec::new())[0]
    }

    /// Deduplicates a sparse gradient whose rows are this tensor, of which the first `count` are valid: the unique indices, the sum
    /// of the rows of each, and how many there are; indices are below `length`.
    pub fn sum_rows(self, indices: Value<'g>, count: Value<'g>, length: usize) -> [Value<'g>; 3] {
        let results = self.builder.prim(
            &prims::SUM_ROWS,
            &[indices, self, count],
            vec![Attr::Size(length)],
        );
        [results[0], results[1], results[2]]
    }

    /// This tensor with the first `count` of `rows` scattered to unique indices, as [`Value::sum_rows`] gives them.
    pub fn put_rows(self, indices: Value<'g>, rows: Value<'g>, count: Value<'g>) -> Value<'g> {
        self.builder
            .prim(&prims::PUT_ROWS, &[self, indices, rows, count], Vec::new())[0]
    }

    /// The maximum of the rows of each of `segments` segments; the lowest value of the type for an empty one.
    pub fn segment_max(self, ids: Value<'g>, segments: usize) -> Value<'g> {
        self.segment_reduction(&prims::UNSORTED_SEGMENT_MAX, ids, segments)
    }

    /// The minimum of the rows of each of `segments` segments; the highest value of the type for an empty one.
    pub fn segment_min(self, ids: Value<'g>, segments: usize) -> Value<'g> {
        self.segment_reduction(&prims::UNSORTED_SEGMENT_MIN, ids, segments)
    }

    /// The product of the rows of each of `segments` segments; 1 for an empty one.
    pub fn segment_prod(self, ids: Value<'g>, segments: usize) -> Value<'g> {
        self.segment_reduction(&prims::UNSORTED_SEGMENT_PROD, ids, segments)
    }

    fn segment_reduction(self, prim: &'static Prim, ids: Value<'g>, segments: usize) -> Value<'g> {
        let attrs = vec![Attr::Size(segments)];
        self.builder.prim(prim, &[self, ids], attrs)[0]
    }

    /// The unique values of a vector in the order of first appearance (padded with 0), for each element the index (i32) of its
    /// value, and how many there are (i64).
    pub fn unique(self) -> [Value<'g>; 3] {
        let results = self.builder.prim(&prims::UNIQUE, &[self], Vec::new());
        [results[0], results[1], results[2]]
    }

    /// Stream compaction: the positions (i64) of the true elements of a vector, padded with 0, and how many there are (i64).
    pub fn compact(self) -> [Value<'g>; 2] {
        let results = self.builder.prim(&prims::COMPACT, &[self], Vec::new());
        [results[0], results[1]]
    }
}

impl Builder {
    /// The concatenation of tensors along an axis.
    pub fn concat<'g>(&'g self, values: &[Value<'g>], axis: usize) -> Value<'g> {
        match values {
            [one] => *one,
            _ => self.prim(&prims::CONCAT, values, vec![Attr::Size(axis)])[0],
        }
    }

    /// Tensors of one shape along a new axis.
    pub fn stack<'g>(&'g self, values: &[Value<'g>], axis: usize) -> Value<'g> {
        let expanded: Vec<Value<'g>> = values.iter().map(|v| v.expand(axis)).collect();
        self.concat(&expanded, axis)
    }

    /// 0, 1, … n - 1 as i64.
    pub fn iota(&self, n: usize) -> Value<'_> {
        self.prim(&prims::IOTA, &[], vec![Attr::Size(n)])[0]
    }

    /// The sum of values of one type, as a balanced tree (pairwise summation).
    pub fn sum_of<'g>(&'g self, values: &[Value<'g>]) -> Value<'g> {
        let mut row = values.to_vec();
        while row.len() > 1 {
            row = row
                .chunks(2)
                .map(|pair| if let [a, b] = pair { *a + *b } else { pair[0] })
                .collect();
        }
        row[0]
    }

    /// Values in the shape that all of them broadcast to.
    pub fn broadcast_all<'g>(&'g self, values: &[Value<'g>]) -> Vec<Value<'g>> {
        broadcast_all(values)
    }
}
