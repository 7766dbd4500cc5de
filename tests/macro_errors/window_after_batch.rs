trainspec::train! {
    spec wrong;
    data points {
        source csv("points.csv");
        feature x: f32;
        batch 4;
        window 3;
    }
}

fn main() {}
