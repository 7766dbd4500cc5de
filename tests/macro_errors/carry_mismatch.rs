trainspec::train! {
    spec wrong;
    model (xs: f32[time, 4], h0: f32[8]) {
        output h = scan x in xs, h = h0 { concat([h, x], axis: 0) };
    }
}

fn main() {}
