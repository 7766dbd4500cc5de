//! What the spec names and the program gives: a method of the builder for each hook, feed and source, with its arguments as a struct, and
//! for arrays in memory.
//!
//! In: the hooks and data sets of a typed spec. Out: methods `hook_NAME`, `feed_NAME`, `source_NAME` and `memory_NAME`, and the modules
//! `hooks`, `feeds` and `sources` with the arguments. What has arguments without names is registered through the builder without types.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use trainspec_frontend::typed::{Constant, HookKind, Registered as Setting, SourceKind, Spec};

use crate::module::{Declared, identifier, type_name};

/// A hook, a feed or a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Hook,
    Feed,
    Source,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Hook => "hook",
            Kind::Feed => "feed",
            Kind::Source => "source",
        }
    }
}

/// An argument: its name, its type, and whether each setting of that name gives it.
struct Argument {
    name: String,
    field: Ident,
    ty: TokenStream,
    is_required: bool,
}

/// What is registered under a name.
struct Entry {
    kind: Kind,
    name: String,
    /// Its part of the names of methods and types.
    part: String,
    span: Span,
    arguments: Vec<Argument>,
}

/// Arrays that a program hands in under a name.
struct Memory {
    name: String,
    /// Its part of the name of the method.
    part: String,
    span: Span,
}

/// All that a program registers for a spec.
pub(crate) struct Registered<'i> {
    krate: &'i TokenStream,
    entries: Vec<Entry>,
    memories: Vec<Memory>,
}

/// A name as a part of the names of methods.
fn part_of(name: &str) -> String {
    let letters = name.chars();
    let part: String = letters
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    part.to_lowercase()
}

impl<'i> Registered<'i> {
    /// What the hooks and the data sets of a spec name.
    pub(crate) fn of(
        krate: &'i TokenStream,
        spec: &Spec,
        declared: &Declared<'_>,
    ) -> Registered<'i> {
        let mut named: BTreeMap<(Kind, &str), Vec<&Setting>> = BTreeMap::new();
        for hook in &spec.hooks {
            let (kind, setting) = match &hook.kind {
                HookKind::Registered(setting) => (Kind::Hook, setting),
                HookKind::Feed(setting) => (Kind::Feed, setting),
                _ => continue,
            };
            named
                .entry((kind, &setting.name))
                .or_default()
                .push(setting);
        }
        let mut memories: Vec<Memory> = Vec::new();
        for source in spec.data.iter().map(|data| &data.source) {
            match &source.kind {
                SourceKind::Registered(setting) => {
                    let settings = named.entry((Kind::Source, &setting.name)).or_default();
                    settings.push(setting);
                }
                SourceKind::Memory { name } => {
                    let part = part_of(name);
                    if memories.iter().all(|one| one.part != part) {
                        memories.push(Memory {
                            name: name.clone(),
                            part,
                            span: declared.token(Some(source.span)),
                        });
                    }
                }
                _ => {}
            }
        }
        let mut entries: Vec<Entry> = Vec::new();
        for ((kind, name), settings) in named {
            let part = part_of(name);
            let is_taken = (entries.iter()).any(|one| (one.kind, &one.part) == (kind, &part));
            let span = declared.token(Some(settings[0].span));
            if let (false, Some(arguments)) = (is_taken, arguments(krate, &settings)) {
                entries.push(Entry {
                    kind,
                    name: name.to_owned(),
                    part,
                    span,
                    arguments,
                });
            }
        }
        Registered {
            krate,
            entries,
            memories,
        }
    }

    /// The methods of the builder.
    pub(crate) fn methods(&self) -> TokenStream {
        let entries = self.entries.iter().map(|one| one.method(self.krate));
        let memories = self.memories.iter().map(|one| one.method(self.krate));
        entries.chain(memories).collect()
    }

    /// The modules `hooks`, `feeds` and `sources`.
    pub(crate) fn modules(&self) -> TokenStream {
        let module = |kind: Kind| {
            let entries = self.entries.iter();
            let entries = entries.filter(|one| one.kind == kind && !one.arguments.is_empty());
            let structs: Vec<TokenStream> = entries.map(Entry::arguments_struct).collect();
            let name = format_ident!("{}s", kind.word());
            let doc = format!("The arguments of the {name} that the program registers.");
            (!structs.is_empty()).then(|| quote! { #[doc = #doc] pub mod #name { #(#structs)* } })
        };
        let modules = [Kind::Hook, Kind::Feed, Kind::Source].map(module);
        quote! { #(#modules)* }
    }
}

impl Entry {
    fn type_name(&self) -> Ident {
        format_ident!("{}", type_name(&self.part))
    }

    fn arguments_struct(&self) -> TokenStream {
        let doc = format!("The arguments of `{} \"{}\"`.", self.kind.word(), self.name);
        let name = self.type_name();
        let fields = self.arguments.iter().map(|one| {
            let (field, ty) = (&one.field, &one.ty);
            let doc = format!("`{}`.", one.name);
            match one.is_required {
                true => quote! { #[doc = #doc] pub #field: #ty },
                false => quote! { #[doc = #doc] pub #field: ::core::option::Option<#ty> },
            }
        });
        quote! {
            #[doc = #doc]
            #[derive(Debug, Clone)]
            pub struct #name { #(#fields),* }
        }
    }

    fn method(&self, krate: &TokenStream) -> TokenStream {
        let (word, name) = (self.kind.word(), &self.name);
        let mut method = format_ident!("{word}_{}", self.part);
        method.set_span(self.span);
        let register = format_ident!("{word}");
        let parameters = self.arguments.iter().map(|one| {
            let (name, ty) = (&one.name, &one.ty);
            match one.is_required {
                true => quote! { #krate::registry::Parameter::required::<#ty>(#name) },
                false => quote! { #krate::registry::Parameter::optional::<#ty>(#name) },
            }
        });
        let values = self.arguments.iter().map(|one| {
            let (name, field) = (&one.name, &one.field);
            match one.is_required {
                true => quote! { #field: arguments.get(#name)? },
                false => quote! { #field: arguments.find(#name)? },
            }
        });
        let module = format_ident!("{word}s");
        let ty = self.type_name();
        let (taken, given) = match self.arguments.is_empty() {
            true => (quote! {}, quote! {}),
            false => (
                quote! { #module::#ty },
                quote! { #module::#ty { #(#values),* } },
            ),
        };
        let doc = match self.kind {
            Kind::Hook | Kind::Feed => {
                format!("The {word} `{name}` of the spec: each run makes its own.")
            }
            Kind::Source => format!(
                "The {word} `{name}` of the spec: what gives the records of an epoch, the same ones each time."
            ),
        };
        let (generics, made, boxed) = match self.kind {
            Kind::Hook => (
                quote! { <H: #krate::hooks::SessionRunHook + 'static> },
                quote! { H },
                quote! {
                    ::core::result::Result::Ok(
                        ::std::boxed::Box::new(made) as ::std::boxed::Box<dyn #krate::hooks::SessionRunHook>
                    )
                },
            ),
            Kind::Feed => (
                quote! {},
                quote! { #krate::hooks::FeedFn },
                quote! { ::core::result::Result::Ok(made) },
            ),
            Kind::Source => (
                quote! {},
                quote! { #krate::registry::RecordIterator },
                quote! { ::core::result::Result::Ok(made) },
            ),
        };
        quote! {
            #[doc = #doc]
            pub fn #method #generics (
                self,
                factory: impl ::core::ops::Fn(#taken) -> ::core::result::Result<#made, #krate::Error>
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            ) -> Builder {
                let parameters: &[#krate::registry::Parameter] = &[#(#parameters),*];
                self.with(|b| b.#register(#name, parameters, move |arguments| {
                    let _ = arguments;
                    let made = factory(#given)?;
                    #boxed
                }))
            }
        }
    }
}

impl Memory {
    fn method(&self, krate: &TokenStream) -> TokenStream {
        let name = &self.name;
        let mut method = format_ident!("memory_{}", self.part);
        method.set_span(self.span);
        let doc = format!(
            "The arrays that the spec reads as `memory(\"{name}\")`: one for each feature, whose first dimension is the records."
        );
        quote! {
            #[doc = #doc]
            pub fn #method<K: ::core::convert::Into<::std::string::String>>(
                self,
                arrays: impl ::core::iter::IntoIterator<Item = (K, #krate::Tensor)>,
            ) -> Builder {
                self.with(|b| b.memory(#name, arrays))
            }
        }
    }
}

/// The arguments that all settings of one name give; `None` where one has no name, or no Rust type.
fn arguments(krate: &TokenStream, settings: &[&Setting]) -> Option<Vec<Argument>> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in settings.iter().flat_map(|setting| &setting.arguments) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let argument = |name: &str| {
        let given = settings.iter().map(|setting| {
            let mut arguments = setting.arguments.iter();
            arguments
                .find(|(known, _)| known == name)
                .map(|(_, value)| value)
        });
        let given: Vec<Option<&Constant>> = given.collect();
        let values: Vec<&Constant> = given.iter().copied().flatten().collect();
        let is_position = name.parse::<usize>().is_ok();
        Some(Argument {
            name: name.to_owned(),
            field: identifier(name, Span::call_site()).filter(|_| !is_position)?,
            ty: rust_type(krate, &values)?,
            is_required: given.iter().all(Option::is_some),
        })
    };
    names.into_iter().map(argument).collect()
}

/// The Rust type that all of some constants have.
fn rust_type(krate: &TokenStream, values: &[&Constant]) -> Option<TokenStream> {
    let all = |is: fn(&Constant) -> bool| values.iter().all(|value| is(value));
    let is_int = |value: &Constant| matches!(value, Constant::Int(_));
    Some(match values.first()? {
        Constant::Int(_) if all(is_int) => quote! { ::core::primitive::i64 },
        Constant::Int(_) | Constant::Float(_)
            if all(|value| matches!(value, Constant::Int(_) | Constant::Float(_))) =>
        {
            quote! { ::core::primitive::f64 }
        }
        Constant::Bool(_) if all(|value| matches!(value, Constant::Bool(_))) => {
            quote! { ::core::primitive::bool }
        }
        Constant::Str(_) if all(|value| matches!(value, Constant::Str(_))) => {
            quote! { ::std::string::String }
        }
        Constant::Interval(_) if all(|value| matches!(value, Constant::Interval(_))) => {
            quote! { #krate::registry::Interval }
        }
        Constant::List(_) if all(|value| matches!(value, Constant::List(_))) => {
            let elements = values.iter().flat_map(|value| match value {
                Constant::List(list) => list.as_slice(),
                _ => &[],
            });
            let element = rust_type(krate, &elements.collect::<Vec<_>>())?;
            quote! { ::std::vec::Vec<#element> }
        }
        _ => return None,
    })
}
