//! Commands on files, as `docs/files.md` shows them: each block there is a command and what it prints.
//!
//! `BLESS=1` writes the outputs into the document.

use std::path::Path;

use crate::support::{Folder, command, root};

/// What a command prints: results, then what it says on standard error, then its code unless it is 0. `OUT` stands for a folder, and
/// `0.01` for however many seconds it took.
fn output_of(typed: &str, folder: &Path) -> String {
    let out = folder.join("out").display().to_string();
    let words = typed.strip_prefix("trainspec ").expect("it is our command");
    let output = command(&[])
        .args(
            words
                .split_whitespace()
                .map(|word| word.replace("OUT", &out)),
        )
        .current_dir(root())
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap();
    if code != 0 {
        text += &format!("[exit code {code}]\n");
    }
    text.replace(&out, "OUT")
        .lines()
        .map(|line| match line.split_once(", in ") {
            Some((before, time)) if time.ends_with(" s") => format!("{before}, in 0.01 s\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn commands_on_files_print_what_the_document_shows() {
    let path = root().join("docs/files.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let folder = Folder::new();
    let (mut rendered, mut commands) = (String::new(), 0);
    let mut rest = document.as_str();
    while let Some((before, block)) = rest.split_once("```console\n$ ") {
        let (command, shown) = block.split_once('\n').unwrap();
        let end = shown.find("```").expect("the block ends");
        rendered += &format!(
            "{before}```console\n$ {command}\n{}",
            output_of(command, &folder.0)
        );
        rest = &shown[end..];
        commands += 1;
    }
    rendered += rest;
    assert!(commands >= 10, "{commands} commands");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    for (line, (rendered, shown)) in rendered.lines().zip(document.lines()).enumerate() {
        assert!(
            std::env::var_os("BLESS").is_some() || rendered == shown,
            "docs/files.md:{}\n  shown: {shown}\n  rendered:  {rendered}",
            line + 1
        );
    }
    assert!(
        std::env::var_os("BLESS").is_some() || rendered == document,
        "docs/files.md"
    );
}
