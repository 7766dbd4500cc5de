trainspec::train! {
    spec wrong;
    data points {
        source csv("points.csv");
        feature x: f32;
        batch 32;
        filter x > 0.0;
    }
    model (x: f32[batch]) { output y = x; }
}

fn main() {}
