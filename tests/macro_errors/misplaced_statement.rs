trainspec::train! {
    spec wrong;
    block tail(x: f32[.., n]) {
        loss mean(x);
        x
    }
    model (x: f32[batch, 4]) { output y = tail(x); }
}

fn main() {}
