//! The page that follows a spec through the compiler shows what the stages print, and linked files exist.

use trainspec_compiler::codegen::listing::{Target, can_list};
use trainspec_compiler::source::NoFiles;
use trainspec_compiler::{EmitOptions, Options, Stage};
use trainspec_tests::root;

/// The page that follows one spec.
const PAGE: &str = "docs/a-spec-through-the-compiler.md";

fn text() -> String {
    std::fs::read_to_string(root().join(PAGE)).unwrap()
}

/// The inside of the first fenced block with that tag.
fn block<'a>(text: &'a str, tag: &str) -> &'a str {
    let start = format!("```{tag}\n");
    let from = text
        .find(&start)
        .unwrap_or_else(|| panic!("no block {tag}"))
        + start.len();
    &text[from..from + text[from..].find("```").unwrap()]
}

/// The code of the last kernel.
fn last_kernel(listing: &str) -> &str {
    let from = listing.rfind("\n; ").unwrap() + 1;
    listing[from..].strip_suffix('\n').unwrap()
}

#[test]
fn the_followed_spec_gives_the_printed_stages() {
    let text = text();
    let spec = block(&text, "trainspec");
    let choices = EmitOptions {
        dims: [("batch".to_owned(), 8)].into(),
        target: Target::Haswell,
        ..EmitOptions::default()
    };
    for stage in Stage::ALL {
        let code = matches!(stage, Stage::Clif | Stage::Asm);
        if code && !can_list(choices.target) {
            println!("skipped: {} needs a compiler for x86-64", stage.name());
            continue;
        }
        let printed = block(&text, &format!("stage-{}", stage.name()));
        let found = stage
            .emit(
                "line.trainspec",
                spec,
                &NoFiles,
                &Options::default(),
                &choices,
            )
            .unwrap();
        let found = if code { last_kernel(&found) } else { &found };
        if std::env::var_os("BLESS").is_some() && printed != found {
            let path = root().join(PAGE);
            let old = format!("```stage-{}\n{printed}```", stage.name());
            let new = format!("```stage-{}\n{found}```", stage.name());
            let now = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, now.replace(&old, &new)).unwrap();
            continue;
        }
        assert_eq!(printed, found, "stage {}", stage.name());
    }
}

#[test]
fn linked_files_exist() {
    for document in ["ARCHITECTURE.md", "README.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for link in text.split("](").skip(1) {
            let path = link.split(')').next().unwrap();
            assert!(root().join(path).exists(), "{document} links to {path}");
        }
    }
}
