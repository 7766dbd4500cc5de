//! A line through points that come one after another: the spec is checked when this program is built.

use trainspec::ndarray::Array1;

trainspec::train! {
    pub spec starter;

    const RATE = 0.1;

    model (x: f32[batch], y: f32[batch]) {
        param slope: f32 = zeros();
        param offset: f32 = zeros();
        let guess = slope * x + offset;
        loss mean(square(guess - y));
        output prediction = guess;
    }

    train { optimizer gradient_descent(RATE); }
}

pub(crate) fn main() -> Result<(), trainspec::Error> {
    let mut session = starter::Session::builder().seed(1).build()?;
    // Batches may have any size, and may come from wherever the program has them.
    for step in 0..200 {
        let x = Array1::from_shape_fn(16, |i| ((i * 7 + step * 3) % 20) as f32 / 10.0 - 1.0);
        let y = x.mapv(|x| 2.0 * x + 0.5);
        let out = session.step(&starter::Feeds {
            x: x.view(),
            y: y.view(),
        })?;
        if step % 50 == 0 {
            println!("step {step}: loss {:.5}", out.loss);
        }
    }
    let params = session.params();
    println!("y = {:.3} x + {:.3}", params.slope, params.offset);
    let new = Array1::from(vec![0.0, 1.0, 2.0]);
    println!(
        "{:.2}",
        session
            .predict(&starter::Inputs { x: new.view() })?
            .prediction
    );
    Ok(())
}
