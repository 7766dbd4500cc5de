trainspec::train! {
    spec wrong;
    const SIZES = [8, 16];
    model (x: f32[batch, 4]) {
        output last = x[_, 4];
        output wide = dense(x, SIZES[2]);
    }
}

fn main() {}
