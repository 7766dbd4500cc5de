//! `trainspec explain`: the explanation of an error code.

use trainspec_compiler::diag::{Code, explain};

use crate::output::{note, print};
use crate::{BAD_INPUT, FINE};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The code in `error[CODE]`; without it, all codes are listed
    code: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let Some(name) = &arguments.code else {
        for code in Code::ALL {
            let text = explain(*code);
            let summary = text.split(". ").next().unwrap_or(&text);
            print(format_args!(
                "{:22} {}",
                code.name(),
                summary.replace('\n', " ").trim_end_matches('.')
            ));
        }
        return FINE;
    };
    // `error[shape-mismatch]` is what people copy.
    let bare = name
        .trim_start_matches("error")
        .trim_start_matches("warning");
    let bare = bare.trim_start_matches('[').trim_end_matches(']');
    match Code::from_name(bare) {
        Some(code) => {
            print(format_args!(
                "{}[{}]\n\n{}",
                code.severity().name(),
                code.name(),
                explain(code).trim_end()
            ));
            FINE
        }
        None => {
            let near = Code::ALL
                .iter()
                .map(|c| (strsim::osa_distance(bare, c.name()), c.name()))
                .min();
            let help = match near {
                Some((distance, near)) if distance <= 4 => format!("; did you mean `{near}`?"),
                _ => "; `trainspec explain` lists them all".to_owned(),
            };
            note(format_args!("error: there is no code `{name}`{help}"));
            BAD_INPUT
        }
    }
}
