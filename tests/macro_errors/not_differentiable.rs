trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        let best = argmax(x, axis: 1);
        output slope = grad(sum(x), wrt: best);
    }
}

fn main() {}
