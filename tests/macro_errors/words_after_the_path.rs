trainspec::train!(file: "broken.trainspec", 3);

fn main() {}
