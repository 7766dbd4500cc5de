trainspec::train!(file: "cycle.trainspec");

fn main() {}
