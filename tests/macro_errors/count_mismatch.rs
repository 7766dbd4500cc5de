trainspec::train! {
    spec wrong;
    model (ids: i64[100], others: i64[100]) {
        let (a, _) = unique(ids);
        let (b, _) = unique(others);
        output both = a + b;
    }
}

fn main() {}
