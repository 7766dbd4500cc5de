trainspec::train! {
    spec wrong;
    model (x: float32[batch, 4]) {
        param scale: f32[4] = ones();
        loss mean(x * scale);
        output y = x * scale;
    }
    train { optimizer adam(1e-3); }
}

use trainspec::ndarray::Array2;

fn feeds(x: &Array2<f32>) -> wrong::Feeds<'_> {
    wrong::Feeds { x: x.view() }
}

fn main() -> Result<(), trainspec::Error> {
    let x = Array2::<f32>::zeros((2, 4));
    let mut session = wrong::Session::new()?;
    let loss: f32 = session.eval(&feeds(&x))?.loss;
    let y = session.predict(&wrong::Inputs { x: x.view() })?.y;
    println!("{loss} {} {}", y.sum(), session.params().scale[0]);
    Ok(())
}
