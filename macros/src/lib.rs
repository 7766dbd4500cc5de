//! The macro of Trainspec: a spec inside Rust becomes a typed module.
//!
//! In: the tokens of `trainspec::train! { ... }`. Out: the module, and the diagnostics of the spec as errors and warnings of the Rust
//! compiler. Leaves alone: everything after the front end; the module checks the embedded text again when it first runs.

mod constants;
mod diagnostics;
mod invocation;
mod module;
mod params;
mod registered;
mod spec_file;
mod unknown;

use proc_macro2::TokenStream;
use syn::parse::Parser;

use diagnostics::Report;
use invocation::{Invocation, SpecTokens};
use spec_file::{SpecFile, UsedFiles, path_of};
use trainspec_frontend::check::{self, Checked};
use trainspec_frontend::declarations::Declarations;
use trainspec_frontend::source::Sources;
use trainspec_frontend::tokens::{TokenText, text_of};

/// Compiles a spec into a module. It is called through `trainspec::train!`, which passes the path of its crate.
#[proc_macro]
pub fn train(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let expanded = match Invocation::parse.parse(input) {
        Ok(invocation) => expand(&invocation),
        Err(error) => error.into_compile_error(),
    };
    expanded.into()
}

/// A spec that was checked, with what its diagnostics and its module need.
struct CheckedSpec {
    sources: Sources,
    /// The spec itself among its sources.
    root: trainspec_ir::FileId,
    checked: Checked,
    /// What the root text declares.
    declarations: Declarations,
    /// The tokens of the root text, where it stands in Rust.
    tokens: Option<TokenText>,
    /// The files that were read.
    read: Vec<std::path::PathBuf>,
}

fn expand(invocation: &Invocation) -> TokenStream {
    let spec = match &invocation.spec {
        SpecTokens::Inline(tokens) => {
            let text = text_of(tokens.clone());
            let used = UsedFiles::beside(invocation.span());
            checked(&used, &text.text.clone(), Some(text), Vec::new())
        }
        SpecTokens::File(path) => match SpecFile::read(path) {
            Ok(file) => checked(&file.used(), &file.text, None, vec![file.path.clone()]),
            Err(error) => return error.into_compile_error(),
        },
    };
    let report = Report {
        spec: &spec,
        call_site: match &invocation.spec {
            SpecTokens::Inline(_) => invocation.span(),
            SpecTokens::File(path) => path.span(),
        },
    };
    // The first error stands in the module, where it is the type of what has none.
    let errors = report.errors();
    match module::module(invocation, &spec, &report.warnings(), errors.first()) {
        Some(module) => {
            let others = errors.get(1..).unwrap_or_default();
            quote::quote! { #module #(#others)* }
        }
        None => quote::quote! { #(#errors)* },
    }
}

fn checked(
    files: &UsedFiles,
    text: &str,
    tokens: Option<TokenText>,
    mut read: Vec<std::path::PathBuf>,
) -> CheckedSpec {
    let mut sources = Sources::default();
    let root = sources.add(&files.root, text);
    let checked = check::check(&mut sources, root, files, &check::Options::default());
    let (parsed, _) = trainspec_frontend::syntax::parse(root, text);
    let used = sources.uses().iter().map(|one| path_of(&one.found));
    read.extend(used);
    read.sort();
    read.dedup();
    CheckedSpec {
        sources,
        root,
        checked,
        declarations: Declarations::of(&parsed.file),
        tokens,
        read,
    }
}
