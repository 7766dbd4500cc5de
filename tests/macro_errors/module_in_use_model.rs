trainspec::train! {
    spec wrong;
    modle (x: f32[batch, 4]) {
        let y = dense(x, 1);
        loss mean(y);
        output guess = y;
    }
    train { optimizer adam(1e-3); }
}

fn main() -> Result<(), trainspec::Error> {
    let x = trainspec::ndarray::Array2::<f32>::zeros((2, 4));
    let mut session = wrong::Session::new()?;
    let out = session.step(&wrong::Feeds { x: x.view() })?;
    let outputs: wrong::Outputs = session.predict(&wrong::Inputs { x: x.view() })?;
    println!("{} {}", out.loss, outputs.guess);
    Ok(())
}
