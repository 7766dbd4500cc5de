//! Linear regression on numbers that the program has: `cargo run -p trainspec-examples --bin linear_regression`.

use ndarray::array;

trainspec::train! {
    spec line;

    model (x: f32[batch], y: f32[batch]) {
        param slope: f32 = zeros();
        param intercept: f32 = zeros();
        let guess = slope * x + intercept;
        loss mean(square(guess - y));
        output prediction = guess;
    }

    train { optimizer momentum(0.05, momentum: 0.9); }
}

fn main() -> Result<(), trainspec::Error> {
    let x = array![-1.0_f32, 0.0, 1.0, 2.0, 3.0];
    let y = x.mapv(|x| 2.0 * x - 1.0);
    let mut session = line::Session::new()?;
    let feeds = line::Feeds {
        x: x.view(),
        y: y.view(),
    };
    for step in 1..=200 {
        let out = session.step(&feeds)?;
        if step % 50 == 0 {
            println!("step {step}: loss {:.6}", out.loss);
        }
    }
    let params = session.params();
    println!(
        "y = {:.3} x + {:.3}",
        params.slope.into_scalar(),
        params.intercept.into_scalar()
    );
    let unseen = array![10.0_f32];
    println!(
        "at 10: {:.3}",
        session
            .predict(&line::Inputs { x: unseen.view() })?
            .prediction[0]
    );
    Ok(())
}
