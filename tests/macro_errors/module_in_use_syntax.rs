trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        let y = dense(x, 1);
        metric size = mean(x) + ;
        loss mean(y);
    }
    train { optimizer adam(1e-3); }
}

fn main() -> Result<(), trainspec::Error> {
    let x = trainspec::ndarray::Array2::<f32>::zeros((2, 4));
    let mut session = wrong::Session::new()?;
    let out = session.step(&wrong::Feeds { x: x.view() })?;
    println!("{} {}", out.size, out.loss);
    Ok(())
}
