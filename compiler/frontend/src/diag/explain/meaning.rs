//! Explanations of semantic errors: values, types, shapes, variables.

pub(super) const AXIS_OUT_OF_RANGE: &str = r#"An axis was named that the tensor does not have. Axes count from 0, or from the end with -1, and a tensor of two
dimensions has the axes 0, 1, -2 and -1. Which dimensions a tensor has is known while the spec is checked, so this
never waits for run time. Look at the type in the message: often a dimension is missing, or an earlier reduction has
removed it.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(sum(x, axis: 2));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(sum(x, axis: 1));
    }
"#;

pub(super) const BAD_GLOB: &str = r#"A pattern over variable names holds something that patterns do not have. `*` stands for any part of a name within
one scope, `**` also crosses `/`, and `?` is one character; everything else stands for itself. There are no brackets
and no alternatives: two patterns are two settings.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1));
    }
    train {
        optimizer adam(1e-3) for "dense/[kb]*";
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1));
    }
    train {
        optimizer adam(1e-3) for "dense/*";
    }
"#;

pub(super) const BAD_VALUE: &str = r#"The value is of the right kind, but not one that can be used here. A setting may know only a few words, a count must
be at least 1, a part must lie between 0 and 1, and nothing can be divided by zero. The message names what is
possible.

Wrong:

    data d {
        source  csv("train.csv");
        feature x: f32[4];
        batch   (size: 32, remainder: ignore);
    }

Right:

    data d {
        source  csv("train.csv");
        feature x: f32[4];
        batch   (size: 32, remainder: keep);
    }
"#;

pub(super) const BOUND_MISMATCH: &str = r#"The bounds after `in` do not fit the type. `in a..b` says that the integers of an input lie from a up to, but
without, b; it is checked at run time and used for synthetic data. Only integer types can be bounded, the range must
hold at least one number, and all its numbers must fit in the type.

Wrong:

    model (x: f32[batch, 4] in 0..1) {
        loss mean(x);
    }

Right:

    model (x: f32[batch, 4], label: i64[batch] in 0..10) {
        loss mean(x) + mean(cast(label, f32));
    }
"#;

pub(super) const CARRY_MISMATCH: &str = r#"The body of a loop does not give back what the loop carries. `for` and `scan` carry a value from one iteration to
the next: the body ends in the next value, or in a tuple with one for each carried name. In a `scan` the type may
not change, because all iterations are one loop at run time.

Wrong:

    model (xs: f32[time, 4]) {
        let total = scan x in xs, total = 0.0 { total + x };
        loss mean(total);
    }

Right:

    model (xs: f32[time, 4]) {
        let total = scan x in xs, total = 0.0 { total + sum(x) };
        loss total;
    }
"#;

pub(super) const COUNT_MISMATCH: &str = r#"Two tensors with run-time counts cannot be combined, because their counts may differ. A dimension `[<=n]` has a
capacity of n elements, of which a number is in use that only the run knows. Results of two different operations,
such as two calls of `unique`, have two counts. Work on one of them, or bring both to a fixed size first.

Wrong:

    model (a: i64[100], b: i64[100]) {
        let (x, _) = unique(a);
        let (y, _) = unique(b);
        output both = x + y;
    }

Right:

    model (a: i64[100]) {
        let (x, _) = unique(a);
        output twice = x + x;
    }
"#;

pub(super) const DTYPE_MISMATCH: &str = r#"The elements of a tensor have another type than is needed. Nothing is converted silently, since a conversion costs
time and may lose digits; only literals take on the type of what they meet. Write the conversion with `cast(x,
f32)`.

Wrong:

    model (image: u8[batch, 64]) {
        loss mean(dense(image / 255.0, 1));
    }

Right:

    model (image: u8[batch, 64]) {
        loss mean(dense(cast(image, f32) / 255.0, 1));
    }
"#;

pub(super) const FEATURE_MISMATCH: &str = r#"The data set does not give what the model takes. Inputs of the model are bound to features by name, and their types
must agree: the element type, the number of dimensions (`batch` adds the first one) and every size. Change the
feature with `map`, or the type of the input.

Wrong:

    data d {
        source  csv("train.csv");
        feature x: u8[4];
        batch   32;
    }
    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train { data d; optimizer adam(1e-3); }

Right:

    data d {
        source  csv("train.csv");
        feature x: u8[4];
        map     x = cast(x, f32) / 255.0;
        batch   32;
    }
    model (x: f32[batch, 4]) { loss mean(dense(x, 1)); }
    train { data d; optimizer adam(1e-3); }
"#;

pub(super) const GROUP_EMPTY: &str = r#"A pattern, or an optimizer, is left without any variable. A pattern that matches nothing is almost always a name
written wrong. Each variable belongs to the last optimizer whose pattern matches it, so a general one after a
special one takes everything away from it: write the general one first.

Wrong:

    model (x: f32[batch, 4]) {
        layer head = dense(1);
        loss mean(head(x));
    }
    train {
        optimizer adam(1e-3);
        optimizer adagrad(0.1) for "haed/**";
    }

Right:

    model (x: f32[batch, 4]) {
        layer head  = dense(1);
        layer trunk = dense(8);
        loss mean(head(trunk(x)));
    }
    train {
        optimizer adam(1e-3);
        optimizer adagrad(0.1) for "head/**";
    }
"#;

pub(super) const INDEX_OUT_OF_RANGE: &str = r#"A position was named that a list or a dimension does not have. Positions count from 0; negative ones count from the
end, so that -1 is the last. Sizes that are numbers are checked now; a dimension such as `batch` is checked when its
size is known.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(x[_, 4]);
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(x[_, 3]);
    }
"#;

pub(super) const LOOP_TOO_LONG: &str = r#"A `for` has more iterations than can be unrolled. Every iteration of a `for` becomes operations of its own, which is
what lets iterations differ in shape; thousands of them make a program that takes long to compile. A `scan` iterates
over the first dimension of a tensor in one loop at run time, and has no such limit.

Wrong:

    model (x: f32[batch, 4]) {
        let y = for i in 0..1_000_000, y = x { y * 0.5 };
        loss mean(y);
    }

Right:

    model (xs: f32[1_000_000, 4]) {
        let y = scan x in xs, y = fill([4], 0.0) { 0.5 * y + x };
        loss mean(y);
    }
"#;

pub(super) const LOSS_TYPE: &str = r#"A loss is not one floating-point number. An optimizer makes one number smaller; of a tensor it would not know which
element, and integers have no gradient. Reduce the tensor with `mean(...)` or `sum(...)`; the choice matters, since it
scales the gradients.

Wrong:

    model (x: f32[batch, 4], y: f32[batch, 1]) {
        loss square(dense(x, 1) - y);
    }

Right:

    model (x: f32[batch, 4], y: f32[batch, 1]) {
        loss mean(square(dense(x, 1) - y));
    }
"#;

pub(super) const NEGATIVE_SIZE: &str = r#"A dimension would have a size below zero. Sizes are computed while the spec is checked, from constants and from the
shapes of other tensors; a difference may come out negative when a window is larger than what it slides over. A size
of 0 is allowed.

Wrong:

    data d {
        source  csv("train.csv");
        feature x: f32[3 - 4];
    }

Right:

    data d {
        source  csv("train.csv");
        feature x: f32[4 - 3];
    }
"#;

pub(super) const NO_EFFECT: &str = r#"A value is computed and goes nowhere. Only state is ever changed by a statement, so an expression with a `;` after
it does nothing. Bind it with `let`, make it the value of its block by leaving out the `;` at the end, or remove it.
This is a warning: the spec can be used.

Wrong:

    model (x: f32[batch, 4]) {
        relu(x);
        loss mean(dense(x, 1));
    }

Right:

    model (x: f32[batch, 4]) {
        let h = relu(x);
        loss mean(dense(h, 1));
    }
"#;

pub(super) const NO_OPTIMIZER: &str = r#"A variable that is to be trained belongs to no optimizer. Each `param` is trained by the last optimizer whose
pattern matches its name; an optimizer without `for` matches all. Add such a one, or say that the variable stays as
it is with `freeze`.

Wrong:

    model (x: f32[batch, 4]) {
        layer body = dense(8);
        layer head = dense(1);
        loss mean(head(body(x)));
    }
    train { optimizer adam(1e-3) for "head/**"; }

Right:

    model (x: f32[batch, 4]) {
        layer body = dense(8);
        layer head = dense(1);
        loss mean(head(body(x)));
    }
    train {
        optimizer adam(1e-3) for "head/**";
        freeze "body/**";
    }
"#;

pub(super) const NOT_CALLABLE: &str = r#"Something is called that is no function. Functions, blocks, layers, schedules and operations can be called; tensors
and numbers cannot. Positions in a tensor are written in brackets, and an initializer is called by the variable that
it begins.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(x(0));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(x[0]);
    }
"#;

pub(super) const NOT_CALLED: &str = r#"A variable of a layer is read before the layer was called. The shape of its variables follows from the tensor that
the layer gets, so they exist from the first call on. Move the line after that call.

Wrong:

    model (x: f32[batch, 4]) {
        layer head = dense(1);
        let penalty = l2_loss(head.kernel);
        loss mean(head(x)) + penalty;
    }

Right:

    model (x: f32[batch, 4]) {
        layer head = dense(1);
        let y = head(x);
        loss mean(y) + l2_loss(head.kernel);
    }
"#;

pub(super) const NOT_CONSTANT: &str = r#"A value is needed while the spec is checked, and is known only at run time. Sizes, axes, conditions of `if`, ranges
of `for` and `const` parameters decide what the program looks like, so no tensor can stand for them. To choose
between tensors by a tensor, use `where(condition, a, b)`.

Wrong:

    model (x: f32[batch, 4]) {
        let y = if mean(x) > 0.0 { x } else { -x };
        loss mean(dense(y, 1));
    }

Right:

    model (x: f32[batch, 4]) {
        let y = where(x > 0.0, x, -x);
        loss mean(dense(y, 1));
    }
"#;

pub(super) const NOT_DIFFERENTIABLE: &str = r#"A derivative is asked for where there is none. `grad` and `hessian` need tensors with floating-point elements on
both sides: a number that is known when the spec is checked does not depend on anything, and integers have no
gradient.

Wrong:

    model (x: f32[batch, 4]) {
        output gradient = grad(sum(x), wrt: argmax(x, axis: 1));
    }

Right:

    model (x: f32[batch, 4]) {
        output gradient = grad(sum(square(x)), wrt: x);
    }
"#;

pub(super) const NUMBER_OVERFLOW: &str = r#"A number does not fit where it is used. Integers have 64 bits, floats are of double precision, and a literal
that meets a tensor must fit in the type of its elements: 256 is no `u8`. Use a smaller number, or `cast` the tensor
to a wider type first.

Wrong:

    model (pixel: u8[batch]) {
        output brighter = pixel + 256;
    }

Right:

    model (pixel: u8[batch]) {
        output brighter = cast(pixel, i32) + 256;
    }
"#;

pub(super) const PATTERN_MISMATCH: &str = r#"A pattern has another number of names than the value has elements. `let (a, b) = value;` takes a tuple or a list of
two apart. A tensor is no tuple, whatever its first dimension is: `unstack(x)` makes a list of it. Use `_` for
elements that are not needed.

Wrong:

    model (x: f32[batch, 4]) {
        let (mean, variance, count) = moments(x, axes: [0]);
        loss sum(mean + variance + count);
    }

Right:

    model (x: f32[batch, 4]) {
        let (mean, variance) = moments(x, axes: [0]);
        loss sum(mean + variance);
    }
"#;

pub(super) const RANK_MISMATCH: &str = r#"A tensor has another number of dimensions than is needed. Layers and operations say how many they take: a
convolution of pictures, for instance, needs `[batch, height, width, channels]`. `expand_dims(x, axis: 0)` adds a
dimension, `flatten(x)` and `reshape(x, [...])` join some, and an index has at most one position for each.

Wrong:

    model (image: f32[28, 28, 1]) {
        loss mean(conv2d(image, 8, size: 3));
    }

Right:

    model (image: f32[batch, 28, 28, 1]) {
        loss mean(conv2d(image, 8, size: 3));
    }
"#;

pub(super) const RECURSION: &str = r#"A definition or a constant depends on itself. Calls are expanded where they stand, so a function that calls itself
would never end, even under a condition. Repeat with `for`, which is unrolled, or with `scan`, which is one loop at
run time.

Wrong:

    const A = B + 1;
    const B = A + 1;

Right:

    const A = 1;
    const B = A + 1;
"#;

pub(super) const SHAPE_MISMATCH: &str = r#"Two shapes do not go together. Elementwise operations align shapes at the last dimension: two sizes fit if they are
equal or if one of them is 1; a dimension that is missing in front counts as 1. In a product `a @ b` the last
dimension of a equals the second to last of b. Names such as `batch` are equal to themselves only. The message shows
both types.

Wrong:

    model (x: f32[batch, 4], y: f32[batch]) {
        loss mean(square(x - y));
    }

Right:

    model (x: f32[batch, 4], y: f32[batch]) {
        loss mean(square(x - expand_dims(y, axis: 1)));
    }
"#;

pub(super) const SIZE_OVERFLOW: &str = r#"A size is larger than anything that could be held. Sizes and their products are computed exactly in 64 bits, and a
tensor has at most 2^40 elements. Mostly two sizes were multiplied that should have been added, or a constant has
too many zeros.

Wrong:

    model (x: f32[batch, 4]) {
        param table: f32[1_000_000_000, 1_000_000] = zeros;
        loss mean(x) + mean(table);
    }

Right:

    model (x: f32[batch, 4]) {
        param table: f32[1_000, 4] = zeros;
        loss mean(x) + mean(table);
    }
"#;

pub(super) const SPEC_TOO_LARGE: &str = r#"The spec expands to more than can be compiled. Calls and `for` loops are expanded while the spec is checked, and
loops inside loops multiply; there are also limits on how many files a spec is made of. Make the loops shorter, or
turn the long one into a `scan`, which stays one loop.
"#;

pub(super) const TYPE_MISMATCH: &str = r#"A value is of another kind than is needed. Besides tensors there are values that are known while the spec is
checked: integers, floats, bools, strings, lists, tuples, ranges, quantities such as `30 s`, initializers and
functions. A function that is not called is no tensor, and 2.5 is no size.

Wrong:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 2.5));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 2));
    }
"#;

pub(super) const UNKNOWN_MEMBER: &str = r#"A dot asks for something that is not there. `head.kernel` reads a variable of the layer `head`, by the name it has
in its block; nothing else has members. The transpose of a matrix is `transpose(x)`, its shape `shape_of(x)`.

Wrong:

    model (x: f32[batch, 4]) {
        layer head = dense(1);
        let y = head(x);
        loss mean(y) + l2_loss(head.weights);
    }

Right:

    model (x: f32[batch, 4]) {
        layer head = dense(1);
        let y = head(x);
        loss mean(y) + l2_loss(head.kernel);
    }
"#;

pub(super) const UNKNOWN_SIZE: &str = r#"A size must be a number here, and depends on the data. Names such as `batch` stand for sizes that are known when the
data is. A variable has one size for all of a training, and a `for` is unrolled, so both need numbers. Write the
number where the name is declared, in the inputs of the model.

Wrong:

    model (x: f32[batch, n]) {
        loss mean(dense(x, 1));
    }

Right:

    model (x: f32[batch, 4]) {
        loss mean(dense(x, 1));
    }
"#;

pub(super) const UNUSED: &str = r#"Something is declared and never used. It costs nothing to run, but often shows that another name was meant. Remove
it; a `let` that stays on purpose begins with `_`. This is a warning: the spec can be used.

Wrong:

    model (x: f32[batch, 4]) {
        let h = dense(x, 8);
        loss mean(dense(x, 1));
    }

Right:

    model (x: f32[batch, 4]) {
        let h = dense(x, 8);
        loss mean(dense(h, 1));
    }
"#;

pub(super) const VARIABLE_CONFLICT: &str = r#"Two variables would have the same name. Variables are saved and found by name, such as `head/kernel`, so each name
is given once; slots, scalars of optimizers, averages and `global_step` are named beside them. A layer that is
called twice shares its variables, and so must get inputs of the same size; a layer that should have its own is
declared apart.

Wrong:

    model (x: f32[batch, 4], y: f32[batch, 6]) {
        layer tower = dense(8);
        loss mean(tower(x)) + mean(tower(y));
    }

Right:

    model (x: f32[batch, 4], y: f32[batch, 6]) {
        layer left  = dense(8);
        layer right = dense(8);
        loss mean(left(x)) + mean(right(y));
    }
"#;

pub(super) const WRITE_TARGET: &str = r#"Something is written that cannot change. `<-` gives a new value to `state`, and inside an optimizer to `param` and
to slots. A `param` of a block is changed by its optimizer alone, and a `let` is a name for a value. For the same
reason only these have an older value, `old(x)`.

Wrong:

    block center(x: f32[.., n]) {
        param average: f32[n] = zeros;
        average <- 0.9 * average;
        x - average
    }

Right:

    block center(x: f32[.., n]) {
        state average: f32[n] = zeros;
        average <- 0.9 * average;
        x - average
    }
"#;

pub(super) const BROADCAST_WIDENS: &str = r#"A column meets a row, and the result is a matrix. Shapes are aligned at their last dimensions and a dimension of 1
stretches, so a column of predictions minus a row of labels combines each with each: no error, but a loss over it
learns the mean of all labels. That is allowed, and hardly ever meant. Make the ranks equal: take the column out, or
add a dimension to the other side. A table of all pairs is written with dimensions of 1 on both sides, and then
there is no warning.

Wrong:
    model (x: f32[batch, 4], y: f32[batch]) {
        let prediction = dense(x, 1);
        loss mean(square(prediction - y));
    }

Right:
    model (x: f32[batch, 4], y: f32[batch]) {
        let prediction = dense(x, 1)[_, 0];
        loss mean(square(prediction - y));
    }
"#;
