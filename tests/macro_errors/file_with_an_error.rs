trainspec::train!(file: "broken.trainspec");

fn main() {}
