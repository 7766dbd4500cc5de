//! Runs all goldens, and holds them to what they must cover.

use std::collections::BTreeSet;

use pest::Parser;
use pest::iterators::Pairs;
use trainspec_compiler::diag::Code;
use trainspec_compiler::ir::passes;
use trainspec_grammar::{Grammar, Rule};
use trainspec_tests::{ACCEPTED, folder, goldens};

#[test]
fn goldens_hold() {
    let goldens = goldens();
    let failures: Vec<String> = goldens.iter().filter_map(|g| g.verify().err()).collect();
    println!("{} goldens", goldens.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_code_has_a_golden_of_its_name() {
    for code in Code::ALL {
        let path = folder().join(format!("errors/{}.trainspec", code.name()));
        assert!(path.exists(), "{} is missing", path.display());
        let golden = trainspec_tests::Golden::read(&path);
        assert_eq!(
            (golden.kind.as_str(), golden.argument.as_str()),
            ("error", code.name())
        );
    }
}

#[test]
fn every_pass_has_a_golden_in_the_folder_of_its_name() {
    let goldens = goldens();
    for pass in passes::PASSES {
        let folder = folder().join("passes").join(pass.name);
        let own = goldens.iter().filter(|g| g.path.starts_with(&folder));
        let kinds: Vec<_> = own
            .map(|g| (g.kind.as_str(), g.argument.as_str()))
            .collect();
        assert!(!kinds.is_empty(), "{} has no golden", folder.display());
        assert!(
            kinds.iter().all(|kind| *kind == ("pass", pass.name)),
            "{}: {kinds:?}",
            folder.display()
        );
    }
}

#[test]
fn typical_mistakes_are_noticed_and_say_what_to_type() {
    let goldens = goldens();
    let mistakes: Vec<_> = goldens.iter().filter(|g| g.kind == "mistake").collect();
    assert!(mistakes.len() >= 200, "{}", mistakes.len());
    let named = |accepts: fn(&str) -> bool| -> Vec<String> {
        let found = mistakes.iter().filter(|g| accepts(g.expected.trim_end()));
        found.map(|g| g.path.display().to_string()).collect()
    };
    let silent = named(|expected| expected == ACCEPTED);
    assert!(silent.is_empty(), "nothing is said about {silent:?}");
    let unhelpful = named(|expected| {
        let error = expected.split("\n\n").next().unwrap_or_default();
        !error.contains("= help: ") && !error.contains("is missing here")
    });
    println!(
        "{} of {} without help: {unhelpful:?}",
        unhelpful.len(),
        mistakes.len()
    );
    assert!(unhelpful.len() * 10 <= mistakes.len());
}

/// The rules of the grammar that leave no trace in a parse: silent ones.
fn silent_rules() -> BTreeSet<String> {
    let text = include_str!("../../grammar/trainspec.pest");
    text.lines()
        .filter_map(|l| l.split_once('='))
        .filter(|(_, body)| body.trim_start().starts_with("_{"))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

fn collect(pairs: Pairs<'_, Rule>, reached: &mut BTreeSet<String>) {
    for pair in pairs.flatten() {
        let rule = pair.as_rule();
        reached.insert(format!("{rule:?}"));
        // What does not parse is parsed once more, to learn why.
        match rule {
            Rule::item_body => {
                let inside = &pair.as_str()[1..pair.as_str().len() - 1];
                if let Ok(pairs) = Grammar::parse(Rule::statements, inside) {
                    collect(pairs, reached);
                }
            }
            Rule::bad_item => {
                reached.insert("lone_item".to_owned());
            }
            Rule::bad_statement => {
                reached.insert("lone_statement".to_owned());
                reached.insert("lone_setting".to_owned());
            }
            _ => {}
        }
    }
}

#[test]
fn every_rule_of_the_grammar_is_reached_by_a_golden() {
    let mut reached = BTreeSet::new();
    for golden in goldens() {
        if let Ok(text) = String::from_utf8(golden.bytes())
            && let Ok(pairs) = Grammar::parse(Rule::file, &text)
        {
            collect(pairs, &mut reached);
        }
    }
    // The call of an optimizer that a program gives is no part of a file.
    let call = Grammar::parse(Rule::lone_expr, "adam(learning_rate: 1e-3)");
    collect(call.expect("an expression"), &mut reached);
    let silent = silent_rules();
    let missing: Vec<String> = Rule::all_rules()
        .iter()
        .map(|r| format!("{r:?}").trim_start_matches("r#").to_owned())
        .filter(|name| {
            !silent.contains(name)
                && !reached.contains(name)
                && !reached.contains(&format!("r#{name}"))
        })
        .collect();
    assert!(missing.is_empty(), "no golden reaches {missing:?}");
}
