trainspec::train!(file: "no_such_file.trainspec");

fn main() {}
