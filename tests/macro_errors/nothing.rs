trainspec::train! {}

fn main() {}
