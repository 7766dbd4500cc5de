//! A hook of the program's own, which the spec names with its arguments: it stops a run when a variable has settled.

use trainspec::hooks::{SessionRunContext, SessionRunHook, SessionRunValues};
use trainspec::{Error, Event};

trainspec::train! {
    spec settled;

    data flowers {
        source  csv("data/iris.csv", header: true);
        feature sepal_length: f32;
        feature petal_length: f32;
        shuffle (buffer: 150, seed: 1);
        repeat;
        batch   50;
    }

    model (sepal_length: f32[batch], petal_length: f32[batch]) {
        param ratio: f32 = zeros();
        loss mean(square(ratio * sepal_length - petal_length));
    }

    train { data flowers; optimizer gradient_descent(0.001); steps 10_000; }

    hooks { hook "stop_when_settled" (variable: "ratio", tolerance: 1e-4); }
}

/// Stops a run when a variable changes by less than a tolerance.
struct StopWhenSettled {
    variable: String,
    tolerance: f64,
    last: f64,
}

impl SessionRunHook for StopWhenSettled {
    fn after_run(
        &mut self,
        context: &mut SessionRunContext<'_>,
        _: &SessionRunValues,
    ) -> Result<(), Error> {
        let value = context
            .session
            .state()
            .get(&self.variable)
            .map_or(0.0, |t| t.to_f64s()[0]);
        if (value - self.last).abs() < self.tolerance {
            context.request_stop();
        }
        self.last = value;
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let session = settled::Session::builder()
        .data_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .hook_stop_when_settled(|arguments| {
            Ok(StopWhenSettled {
                variable: arguments.variable,
                tolerance: arguments.tolerance,
                last: f64::INFINITY,
            })
        })
        .run(&mut |_: &Event| {})?;
    println!(
        "settled after {} steps at {:.3}",
        session.global_step(),
        session.params().ratio.into_scalar()
    );
    assert!(session.global_step() < 10_000);
    Ok(())
}
