//! Constants of a spec as constants of its module.

use proc_macro2::TokenStream;
use quote::quote;
use trainspec_frontend::declarations::DeclarationKind;
use trainspec_frontend::typed::Spec;

use crate::module::{Declared, identifier};
use crate::unknown::Unknown;

/// Names that a constant of the spec cannot have in the module.
const RESERVED: [&str; 2] = ["SPEC", "SPEC_HASH"];

/// Whether a constant is one of the module, too.
pub(crate) fn is_in_module(name: &str, value: &str) -> bool {
    !RESERVED.contains(&name) && literal(value).is_some()
}

/// A value as Rust has it, with its type; `None` for lists and others that Rust has no constant for.
fn literal(value: &str) -> Option<(TokenStream, TokenStream)> {
    let plain = value.replace('_', "");
    if let Ok(n) = plain.parse::<i64>() {
        return Some((quote! { ::core::primitive::i64 }, quote! { #n }));
    }
    if let Ok(flag) = value.parse::<bool>() {
        return Some((quote! { ::core::primitive::bool }, quote! { #flag }));
    }
    if let Some(x) = plain.parse::<f64>().ok().filter(|x| x.is_finite()) {
        return Some((quote! { ::core::primitive::f64 }, quote! { #x }));
    }
    let string = syn::parse_str::<syn::LitStr>(value).ok()?;
    Some((quote! { &::core::primitive::str }, quote! { #string }))
}

/// The constants that Rust has a type for. Whoever reads the module may use them, so that none is unused.
pub(crate) fn constants(spec: &Spec, unknown: &Unknown, declared: &Declared<'_>) -> TokenStream {
    let kind = DeclarationKind::Constant;
    let constant = |name: &str, ty: TokenStream, value: TokenStream| {
        let ident = identifier(name, declared.span(kind, name))?;
        let doc = declared.docs(kind, name, format!("The constant `{name}` of the spec."));
        Some(quote! { #doc #[allow(dead_code)] pub const #ident: #ty = #value; })
    };
    let known = (spec.constants.iter()).filter(|(name, value)| is_in_module(name, value));
    let known = known.filter_map(|(name, value)| {
        let (ty, literal) = literal(value)?;
        constant(name, ty, literal)
    });
    let without_value = |name: &String| {
        let value = quote! { ::core::unreachable!() };
        constant(name, quote! { __Unknown }, value)
    };
    known
        .chain(unknown.constants.iter().filter_map(without_value))
        .collect()
}
