trainspec::train! {
    spec wrong;
    const WIDTH = 1 + "one";
    model (x: f32[batch, 4]) { output y = dense(x, WIDTH); }
}

fn main() -> Result<(), trainspec::Error> {
    let x = trainspec::ndarray::Array2::<f32>::zeros((2, 4));
    let y = wrong::Session::new()?.predict(&wrong::Inputs { x: x.view() })?.y;
    println!("{} {}", y.len(), wrong::WIDTH + 1);
    Ok(())
}
