trainspec::train! {
    spec wrong;
    model (x: f32[batch, 4]) {
        let y = dense(x, 1);
        loss mean(y);
    }
    train { optimizer adm(1e-3); }
    hooks { hook "watch" (limit: 3); }
}

fn main() -> Result<(), trainspec::Error> {
    let x = trainspec::ndarray::Array2::<f32>::zeros((2, 4));
    let builder = wrong::Session::builder().hook_watch(|arguments| {
        Ok(trainspec::hooks::StopAtStepHook::last_step(arguments.limit as u64))
    });
    let mut session = builder.build()?;
    let loss: f32 = session.step(&wrong::Feeds { x: x.view() })?.loss;
    let kernel = session.params().dense.kernel;
    println!("{loss} {} {:?}", kernel[[0, 0]], wrong::params::dense::kernel::SHAPE);
    Ok(())
}
