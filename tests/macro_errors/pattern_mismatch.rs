trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        let (a, b) = (x, x, x);
        output sum = a + b;
    }
}

fn main() {}
