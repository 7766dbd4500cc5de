trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        layer head = dense(1);
        loss mean(head(x));
    }
    train {
        optimizer adam(1e-3);
        optimizer gradient_descent(0.01) for "haed/**";
    }
}

fn main() {}
