//! `trainspec gradcheck`: gradients against central finite differences.

use std::path::{Path, PathBuf};

use trainspec_compiler::diag::{Code, Diagnostic};
use trainspec_compiler::gradcheck::{GradcheckError, GradcheckOptions, GradcheckResult, gradcheck};

use crate::output::{diagnostics, note, print_raw};
use crate::{BAD_INPUT, FAILED, FINE, Format, files};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The specs; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Give a constant of the spec another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::name_and_value)]
    set: Vec<(String, String)>,
    /// The size of a named dimension; of several specs, in those that have it [default: 3]
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = files::name_and_size)]
    dims: Vec<(String, i64)>,
    /// The most elements of each parameter to compare
    #[arg(long, value_name = "N", default_value_t = 8)]
    elements: usize,
    /// The seed of inputs, of random draws and of the sampled elements
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    seed: i64,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let mut worst = FINE;
    for (i, path) in arguments.files.iter().enumerate() {
        if arguments.files.len() > 1 && arguments.format == Format::Text {
            let gap = if i > 0 { "\n" } else { "" };
            print_raw(&format!("{gap}{}\n", path.display()));
        }
        worst = worst.max(one(arguments, path));
    }
    worst
}

fn one(arguments: &Arguments, path: &Path) -> u8 {
    let compilation = match files::checked(path, &arguments.set, arguments.format) {
        Ok(compilation) => compilation,
        Err(code) => return code,
    };
    let Some(spec) = &compilation.spec else {
        return BAD_INPUT;
    };
    // Of several specs some may have it.
    let given: &[_] = match arguments.files.len() {
        1 => &arguments.dims,
        _ => &[],
    };
    if let Err(unknown) = files::known_dimensions(spec, given) {
        diagnostics(&compilation.sources, &[unknown], arguments.format);
        return BAD_INPUT;
    }
    let options = GradcheckOptions {
        dims: arguments.dims.iter().cloned().collect(),
        elements: arguments.elements,
        seed: arguments.seed,
        memory: trainspec::internals::memory::available(),
    };
    match gradcheck(spec, &options) {
        Ok(checked) if checked.is_empty() => {
            note(format_args!(
                "{}: nothing to check: there is no loss or no parameter",
                path.display()
            ));
            FINE
        }
        Ok(checked) => {
            match arguments.format {
                Format::Text => print_raw(&table(&checked)),
                Format::Json => checked.iter().for_each(|c| print_raw(&json(path, c))),
            }
            if checked.iter().all(|c| c.wrong == 0) {
                FINE
            } else {
                FAILED
            }
        }
        Err(GradcheckError::Spec(diagnostic)) => {
            diagnostics(&compilation.sources, &[*diagnostic], arguments.format);
            BAD_INPUT
        }
        Err(GradcheckError::Run(error)) => {
            let diagnostic = Diagnostic::new(Code::BadValue, error.span, error.message).help(
                "synthetic inputs are between 0 and 1, integers 0 or 1; `in 0..10` bounds an input",
            );
            diagnostics(&compilation.sources, &[diagnostic], arguments.format);
            FAILED
        }
    }
}

/// One line for each parameter, and one for all.
fn table(checked: &[GradcheckResult]) -> String {
    let several = checked.iter().any(|c| c.loss != checked[0].loss);
    let name = |c: &GradcheckResult| match several {
        true => format!("{} by {}", c.parameter, c.loss),
        false => c.parameter.clone(),
    };
    let width = checked
        .iter()
        .map(|c| name(c).len())
        .max()
        .unwrap_or(0)
        .max("parameter".len());
    let types = checked.iter().map(|c| c.ty.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:width$}  {:types$}  {:>8}  {:>5}  {:>10}\n",
        "parameter", "type", "compared", "kinks", "worst"
    );
    for c in checked {
        let verdict = match (c.connected, c.wrong) {
            (false, _) => "the loss does not depend on it".to_owned(),
            (true, 0) => "ok".to_owned(),
            (true, n) => {
                let (index, analytic, central) = c.at.clone().unwrap_or_default();
                format!(
                    "{n} WRONG: at {index:?} the gradient is {analytic:e}, the central difference {central:e}"
                )
            }
        };
        let worst = format!("{:.1e}", c.worst);
        let (name, ty) = (name(c), &c.ty);
        text += &format!(
            "{name:width$}  {ty:types$}  {:>8}  {:>5}  {worst:>10}  {verdict}\n",
            c.compared, c.kinks
        );
    }
    let (compared, kinks): (usize, usize) = (
        checked.iter().map(|c| c.compared).sum(),
        checked.iter().map(|c| c.kinks).sum(),
    );
    let wrong: usize = checked.iter().map(|c| c.wrong).sum();
    let beside = if kinks == 0 {
        String::new()
    } else {
        format!(", {kinks} more next to a kink")
    };
    text += &match wrong {
        0 => format!("all {compared} gradients agree with central differences{beside}\n"),
        n => format!("{n} of {compared} gradients differ from central differences{beside}\n"),
    };
    text
}

fn json(path: &Path, c: &GradcheckResult) -> String {
    let at = c.at.as_ref().map(|(index, analytic, central)| {
        serde_json::json!({ "position": index, "gradient": analytic, "difference": central })
    });
    let object = serde_json::json!({
        "spec": path.display().to_string(), "loss": c.loss, "parameter": c.parameter, "type": c.ty, "compared": c.compared, "kinks": c.kinks,
        "wrong": c.wrong, "worst": c.worst, "at": at, "connected": c.connected,
    });
    format!("{object}\n")
}
