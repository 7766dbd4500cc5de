//! Parameters of a module: views by path, with the name and the shape of each.

use std::collections::BTreeMap;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;
use trainspec_frontend::declarations::DeclarationKind;
use trainspec_frontend::interface::Member;

use crate::module::{Declared, Types, identifier, type_name};

/// A level of the path: scopes and variables by name.
#[derive(Default)]
struct Scope<'m> {
    scopes: BTreeMap<String, Scope<'m>>,
    variables: BTreeMap<String, &'m Member>,
}

impl<'m> Scope<'m> {
    fn of(variables: &'m [Member]) -> Scope<'m> {
        let mut root = Scope::default();
        for variable in variables {
            let mut parts: Vec<&str> = variable.name.split('/').collect();
            let last = parts.pop().unwrap_or_default();
            let mut scope = &mut root;
            for part in parts {
                scope = scope.scopes.entry(part.to_owned()).or_default();
            }
            scope.variables.insert(last.to_owned(), variable);
        }
        root
    }

    /// The struct of a scope, and the modules of what is in it. Names that cannot be fields are left out: `state()` has them.
    fn tokens(
        &self,
        types: &Types<'_>,
        declared: &Declared<'_>,
        name: &Ident,
        doc: &str,
    ) -> TokenStream {
        let private = types.private();
        let (mut fields, mut values, mut modules) = (Vec::new(), Vec::new(), Vec::new());
        for (part, member) in &self.variables {
            let (Some(field), Some(ty)) = (
                identifier(part, declared.token(member.span)),
                types.array_view(&member.ty),
            ) else {
                continue;
            };
            let path = &member.name;
            let known = format!("`{path}: {}`.", member.ty);
            let doc = declared.docs(DeclarationKind::Variable, path, known);
            fields.push(quote! { #doc pub #field: #ty });
            values.push(quote! { #field: #private::variable(state, #path) });
            let sizes = member.ty.shape.0.iter().map(|dim| dim.size.value());
            let Some(sizes) = sizes
                .map(|n| usize::try_from(n?).ok())
                .collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            let rank = sizes.len();
            let name_doc = format!("The name of `{path}` in checkpoints.");
            let shape_doc = format!("The shape of `{path}`.");
            modules.push(quote! {
                #doc
                pub mod #field {
                    #[doc = #name_doc]
                    pub const NAME: &str = #path;
                    #[doc = #shape_doc]
                    pub const SHAPE: [usize; #rank] = [#(#sizes),*];
                }
            });
        }
        for (part, scope) in &self.scopes {
            if self.variables.contains_key(part) {
                continue;
            }
            let Some(field) = identifier(part, Span::call_site()) else {
                continue;
            };
            let ty = format_ident!("{}", type_name(part));
            let doc = format!("The variables of `{part}`.");
            let inner = scope.tokens(types, declared, &ty, &doc);
            fields.push(quote! { #[doc = #doc] pub #field: #field::#ty<'a> });
            values.push(quote! { #field: #field::#ty::of(state) });
            modules.push(quote! { #[doc = #doc] pub mod #field { #inner } });
        }
        let state = types.state();
        quote! {
            #[doc = #doc]
            #[derive(Debug, Clone)]
            pub struct #name<'a> {
                #(#fields,)*
                #[doc(hidden)]
                pub _lifetime: ::core::marker::PhantomData<&'a ()>,
            }

            impl<'a> #name<'a> {
                #[allow(unused_variables)]
                pub(super) fn of(state: &'a #state) -> #name<'a> {
                    #name { #(#values,)* _lifetime: ::core::marker::PhantomData }
                }
            }

            #(#modules)*
        }
    }
}

/// The module `params`.
pub(crate) fn params(
    types: &Types<'_>,
    variables: &[Member],
    declared: &Declared<'_>,
) -> TokenStream {
    let name = format_ident!("Params");
    let doc = "The variables of the model, by path.";
    let inner = Scope::of(variables).tokens(types, declared, &name, doc);
    quote! {
        /// The variables of the model by path: their names, shapes and values.
        pub mod params { #inner }
    }
}
