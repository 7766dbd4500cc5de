trainspec::train! {
    spec wrong;
    fn f(x) = g(x);
    fn g(x) = f(x);
    model (x: f32[batch]) { loss mean(f(x)); }
    train { optimizer adam(1e-3); }
}

fn main() {}
