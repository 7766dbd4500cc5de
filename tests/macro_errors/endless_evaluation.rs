trainspec::train! {
    spec wrong;
    data points { source csv("points.csv"); feature x: f32[2]; repeat; batch 8; }
    model (x: f32[batch, 2]) { loss mean(dense(x, 1)); }
    train { data points; optimizer gradient_descent(0.1); steps 10; }
    eval { data points; }
}

fn main() {}
