//! What a spec with errors declares and has no type for: members of an unknown type, which makes no error of its own.
//!
//! In: the declarations of a spec, and the part of it that could be checked. Out: the names that the part lacks. Leaves alone: variables of
//! layers, which are not declared by name in the spec.

use proc_macro2::TokenStream;
use quote::quote;
use trainspec_frontend::declarations::{DeclarationKind, Declarations};
use trainspec_frontend::interface::{Interface, Member};
use trainspec_frontend::typed::Spec;

/// The names without a type, by kind; none in a spec without errors.
#[derive(Default)]
pub(crate) struct Unknown {
    pub(crate) constants: Vec<String>,
    pub(crate) inputs: Vec<String>,
    pub(crate) losses: Vec<String>,
    pub(crate) metrics: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// Whether variables may be missing.
    pub(crate) variables: bool,
    /// Whether all of the model is missing.
    pub(crate) model: bool,
    /// The first error of the spec.
    error: Option<TokenStream>,
}

impl Unknown {
    /// Those of a spec with that error; none without one.
    pub(crate) fn of(
        spec: &Spec,
        interface: &Interface,
        declarations: &Declarations,
        error: Option<&TokenStream>,
    ) -> Unknown {
        let Some(error) = error else {
            return Unknown::default();
        };
        let missing = |kind, is_known: &dyn Fn(&str) -> bool| -> Vec<String> {
            let names = declarations.of_kind(kind).map(|(name, _)| name);
            names
                .filter(|name| !is_known(name))
                .map(str::to_owned)
                .collect()
        };
        let has = |members: &[Member], name: &str| members.iter().any(|one| one.name == name);
        let bad = |kind| declarations.of_kind(kind).map(|(name, _)| name.to_owned());
        let bad_statements: Vec<String> = bad(DeclarationKind::BadStatement).collect();
        // Losses and metrics are fields of one struct. What cannot be read may be any of them.
        let is_fetched = |name: &str| has(&interface.losses, name) || has(&interface.metrics, name);
        let losses = missing(DeclarationKind::Loss, &is_fetched);
        let mut metrics = missing(DeclarationKind::Metric, &|name| {
            is_fetched(name) || losses.iter().any(|loss| loss == name)
        });
        let mut outputs = missing(DeclarationKind::Output, &|name| {
            has(&interface.outputs, name)
        });
        for name in &bad_statements {
            if !is_fetched(name) && !losses.contains(name) && !metrics.contains(name) {
                metrics.push(name.clone());
            }
            if !has(&interface.outputs, name) && !outputs.contains(name) {
                outputs.push(name.clone());
            }
        }
        let is_variable = |name: &str| has(&interface.variables, name);
        let variables = missing(DeclarationKind::Variable, &is_variable);
        let of_model = [&losses, &metrics, &outputs, &variables];
        let mut constants = missing(DeclarationKind::Constant, &|name| {
            spec.constants.iter().any(|(known, _)| known == name)
        });
        for name in bad(DeclarationKind::BadItem) {
            if !constants.contains(&name) && spec.constants.iter().all(|(known, _)| *known != name)
            {
                constants.push(name);
            }
        }
        let model = spec.model.is_none();
        Unknown {
            constants,
            inputs: missing(DeclarationKind::Input, &|name| has(&interface.inputs, name)),
            variables: model || of_model.iter().any(|names| !names.is_empty()),
            losses,
            metrics,
            outputs,
            model,
            error: Some(error.clone()),
        }
    }

    /// Whether an output may have any type and depend on any input.
    pub(crate) fn has_unknown_outputs(&self) -> bool {
        self.model || !self.outputs.is_empty()
    }

    /// The definition of `__Unknown`, the type of an expression that has an error: the compiler says nothing about what is done with it.
    /// The expression is the first error of the spec, so that it is said once.
    pub(crate) fn definition(&self) -> TokenStream {
        let Some(error) = &self.error else {
            return TokenStream::new();
        };
        quote! {
            #[doc(hidden)]
            pub trait __TypeOf { type Type; }
            #[doc(hidden)]
            pub type __Unknown = <[(); #error] as __TypeOf>::Type;
        }
    }
}
