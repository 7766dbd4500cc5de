//! The module that a spec becomes: feeds, fetches, a session with its builder, constants.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;
use trainspec_frontend::declarations::DeclarationKind;
use trainspec_frontend::identity::Identity;
use trainspec_frontend::interface::{Interface, Member};
use trainspec_frontend::typed::Spec;
use trainspec_ir::{DType, TensorType};

use crate::CheckedSpec;
use crate::constants::constants;
use crate::invocation::Invocation;
use crate::params::params;
use crate::registered::Registered;
use crate::unknown::Unknown;

/// The largest rank that ndarray has a type for.
const MAX_STATIC_RANK: usize = 6;

/// Rust types of values, by their types in the spec.
pub(crate) struct Types<'i>(&'i Invocation);

impl Types<'_> {
    pub(crate) fn private(&self) -> TokenStream {
        self.0.private()
    }

    pub(crate) fn state(&self) -> TokenStream {
        let krate = &self.0.krate;
        quote! { #krate::State }
    }

    /// The type of the elements; `None` for strings, which nothing computes with.
    fn element(&self, dtype: DType) -> Option<TokenStream> {
        let private = self.private();
        match dtype {
            DType::F16 => Some(quote! { #private::half::f16 }),
            DType::Bf16 => Some(quote! { #private::half::bf16 }),
            DType::String => None,
            number => {
                let name = format_ident!("{}", number.name());
                Some(quote! { ::core::primitive::#name })
            }
        }
    }

    fn of_rank(&self, prefix: &str, rank: usize) -> TokenStream {
        let private = self.private();
        let name = match rank <= MAX_STATIC_RANK {
            true => format_ident!("{prefix}{rank}"),
            false => format_ident!("{prefix}D"),
        };
        quote! { #private::ndarray::#name }
    }

    /// A view of a tensor, with the lifetime `'a`.
    pub(crate) fn array_view(&self, ty: &TensorType) -> Option<TokenStream> {
        let (element, view) = (
            self.element(ty.dtype)?,
            self.of_rank("ArrayView", ty.rank()),
        );
        Some(quote! { #view<'a, #element> })
    }

    fn array(&self, ty: &TensorType) -> Option<TokenStream> {
        let (element, array) = (self.element(ty.dtype)?, self.of_rank("Array", ty.rank()));
        Some(quote! { #array<#element> })
    }
}

/// A name of the spec as a Rust identifier; `None` where there is none, as for `self`.
pub(crate) fn identifier(name: &str, span: Span) -> Option<Ident> {
    let plain = syn::parse_str::<Ident>(name);
    let raw = || syn::parse_str::<Ident>(&format!("r#{name}"));
    let mut ident = plain.or_else(|_| raw()).ok()?;
    ident.set_span(span);
    Some(ident)
}

/// `dense_1` as the name of a type: `Dense1`.
pub(crate) fn type_name(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let capitalized = words.map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|c| c.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    });
    let name: String = capitalized.collect();
    match name.starts_with(|c: char| c.is_alphabetic()) {
        true => name,
        false => format!("Scope{name}"),
    }
}

/// The module of a spec; of one with errors what is declared, so that one mistake is one error. It holds the first error then. `None` where
/// a mistake leaves no name for it.
pub(crate) fn module(
    invocation: &Invocation,
    spec: &CheckedSpec,
    warnings: &TokenStream,
    error: Option<&TokenStream>,
) -> Option<TokenStream> {
    let checked = &spec.checked;
    let typed = checked.spec.as_ref().or(checked.partial.as_ref())?;
    let Some(name) = identifier(&typed.name, invocation.span()) else {
        let message = format!("`{}` cannot be the name of a Rust module", typed.name);
        let unnamed = || syn::Error::new(invocation.span(), message).into_compile_error();
        return error.is_none().then(unnamed);
    };
    let Invocation {
        krate,
        attributes,
        visibility,
        ..
    } = invocation;
    let types = &Types(invocation);
    let interface = Interface::of(typed);
    let declared = &Declared::of(invocation, spec);
    let unknown = &Unknown::of(typed, &interface, &spec.declarations, error);
    let unnamed = unnamed(&interface, declared);
    let embedded = embedded(invocation, spec, typed, &interface);
    let constants = constants(typed, unknown, declared);
    let unknown_type = unknown.definition();
    let feeds = match unknown.model {
        false => feeds(
            types,
            "Feeds",
            "What a step or an evaluation is fed.",
            &interface.inputs,
            &unknown.inputs,
            declared,
        ),
        true => unknown_type_of("Feeds", true),
    };
    let predicted: Vec<Member> = (interface.inputs.iter())
        .filter(|input| interface.prediction_inputs.contains(&input.name))
        .cloned()
        .collect();
    let inputs = match unknown.has_unknown_outputs() {
        false => feeds_of_prediction(types, &predicted, declared),
        // Any input may belong to it.
        true => unknown_type_of("Inputs", true),
    };
    let fetches = fetches(types, &interface, unknown, declared);
    let outputs = match unknown.model {
        false => outputs(types, &interface, unknown, declared),
        true => unknown_type_of("Outputs", false),
    };
    let session = session(types, &interface, unknown, &fetches);
    let fetches = &fetches.tokens;
    let registered = Registered::of(krate, typed, declared);
    let registrations = registered.modules();
    let builder = builder(krate, &registered.methods());
    let params = params(types, &interface.variables, declared);
    let doc = format!("The spec `{}`, compiled by `train!`.", typed.name);
    let documented = (spec.declarations.docs.iter()).chain(&spec.declarations.model);
    let documented = documented.map(|line| quote! { #[doc = #line] });
    Some(quote! {
        #(#attributes)*
        #[doc = ""]
        #(#documented)*
        #[doc = ""]
        #[doc = #doc]
        #visibility mod #name {
            #unknown_type
            #unnamed
            #warnings
            #embedded
            #constants
            #feeds
            #inputs
            #fetches
            #outputs
            #session
            #builder
            #registrations
            #params
        }
    })
}

/// What the spec declares: the doc comments, and the tokens of the names.
pub(crate) struct Declared<'s> {
    spec: &'s CheckedSpec,
    call_site: Span,
}

impl<'s> Declared<'s> {
    fn of(invocation: &Invocation, spec: &'s CheckedSpec) -> Declared<'s> {
        Declared {
            spec,
            call_site: invocation.span(),
        }
    }

    /// The token of a span of the spec; that of the invocation where the spec is in a file.
    pub(crate) fn token(&self, span: Option<trainspec_ir::Span>) -> Span {
        let own = span.filter(|span| span.file == self.spec.root);
        let spans = self.spec.tokens.as_ref().zip(own);
        let token = spans.and_then(|(tokens, span)| tokens.span_at(span.range()));
        token.unwrap_or(self.call_site)
    }

    /// The token of the name of something.
    pub(crate) fn span(&self, kind: DeclarationKind, name: &str) -> Span {
        let declaration = self.spec.declarations.get(kind, name);
        self.token(declaration.map(|one| one.span))
    }

    /// The doc comment of something, with what is known besides as its last paragraph.
    pub(crate) fn docs(&self, kind: DeclarationKind, name: &str, known: String) -> TokenStream {
        let declaration = self.spec.declarations.get(kind, name);
        let lines = declaration.map_or(&[][..], |one| &one.docs);
        let between = (!lines.is_empty()).then(|| quote! { #[doc = ""] });
        let lines = lines.iter().map(|line| quote! { #[doc = #line] });
        let known = format!(" {known}");
        quote! { #(#lines)* #between #[doc = #known] }
    }
}

/// Errors for names that no field of a struct can have, such as `self`.
fn unnamed(interface: &Interface, declared: &Declared<'_>) -> TokenStream {
    let groups = [
        ("input", DeclarationKind::Input, &interface.inputs),
        ("loss", DeclarationKind::Loss, &interface.losses),
        ("metric", DeclarationKind::Metric, &interface.metrics),
        ("output", DeclarationKind::Output, &interface.outputs),
    ];
    let members = groups
        .iter()
        .flat_map(|(word, kind, members)| members.iter().map(move |one| (word, *kind, one)));
    let unnamed =
        members.filter(|(.., member)| identifier(&member.name, Span::call_site()).is_none());
    let errors = unnamed.map(|(word, kind, member)| {
        let message = format!(
            "the {word} `{}` cannot be a field in Rust: call it otherwise",
            member.name
        );
        let span = declared.span(kind, &member.name);
        syn::Error::new(span, message).into_compile_error()
    });
    errors.collect()
}

/// The text of the spec with the files that it uses, its hash, and what makes Cargo build again when a file changes.
fn embedded(
    invocation: &Invocation,
    spec: &CheckedSpec,
    typed: &Spec,
    interface: &Interface,
) -> TokenStream {
    let (krate, private) = (&invocation.krate, invocation.private());
    let root = &spec.sources.files()[0];
    let (name, text) = (&root.name, &*root.text);
    let files = spec.sources.uses().iter().map(|one| {
        let mut sources = spec.sources.files().iter();
        let source = sources.find(|source| source.name == one.found);
        let text = source.map_or("", |source| &*source.text);
        let (from, path, found) = (&one.from, &one.path, &one.found);
        quote! { (#from, #path, #found, #text) }
    });
    let hash = match &spec.checked.spec {
        Some(_) => Identity::of(typed).map_or_else(|_| String::new(), |identity| identity.hash),
        None => String::new(),
    };
    let shown = dedented(text);
    let interface = interface.to_string();
    let tracked = spec.read.iter().map(|path| {
        let path = path.display().to_string();
        quote! { const _: &[::core::primitive::u8] = ::core::include_bytes!(#path); }
    });
    quote! {
        /// The text of the spec.
        pub const SPEC: &::core::primitive::str = #shown;
        /// The hash of what the spec trains: the identity of its runs.
        pub const SPEC_HASH: &::core::primitive::str = #hash;
        #(#tracked)*

        static __EMBEDDED_SPEC: #private::EmbeddedSpec = #private::EmbeddedSpec {
            name: #name,
            text: #text,
            files: &[#(#files),*],
            interface: #interface,
        };

        /// The checked spec.
        pub fn spec() -> ::core::result::Result<::std::sync::Arc<#krate::Spec>, #krate::Error> {
            #krate::SessionBuilder::embedded(&__EMBEDDED_SPEC).spec()
        }
    }
}

/// A text without the lines before it and without the indentation that all its lines have.
fn dedented(text: &str) -> String {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let lines = || text.lines().skip_while(|line| line.trim().is_empty());
    let common = lines().filter(|line| !line.trim().is_empty());
    let common = common.map(|line| indent(&line)).min().unwrap_or(0);
    let lines = lines().map(|line| line.get(common..).unwrap_or("").to_owned() + "\n");
    lines.collect()
}

/// A struct of views that can be fed.
fn feeds(
    types: &Types<'_>,
    name: &str,
    doc: &str,
    members: &[Member],
    unknown: &[String],
    declared: &Declared<'_>,
) -> TokenStream {
    if members.is_empty() && !unknown.is_empty() {
        return unknown_type_of(name, true);
    }
    let krate = &types.0.krate;
    let name = format_ident!("{name}");
    let unknown = unknown_fields(DeclarationKind::Input, unknown, declared);
    let members = members.iter().filter_map(|member| {
        let span = declared.span(DeclarationKind::Input, &member.name);
        let field = identifier(&member.name, span)?;
        let ty = types.array_view(&member.ty)?;
        Some((field, ty, member))
    });
    let members: Vec<_> = members.collect();
    let fields = members.iter().map(|(field, ty, member)| {
        let bounds = member
            .bounds
            .map(|(start, end)| format!(" in {start}..{end}"));
        let bounds = bounds.unwrap_or_default();
        let known = format!("`{}: {}{bounds}`.", member.name, member.ty);
        let doc = declared.docs(DeclarationKind::Input, &member.name, known);
        quote! { #doc pub #field: #ty }
    });
    let arms = members.iter().map(|(field, _, member)| {
        let name = &member.name;
        quote! { #name => ::core::option::Option::Some(#krate::InputView::from(&self.#field)) }
    });
    let lifetime = match members.is_empty() {
        true => quote! {},
        false => quote! { <'a> },
    };
    let elided = match members.is_empty() {
        true => quote! {},
        false => quote! { <'_> },
    };
    quote! {
        #[doc = #doc]
        #[derive(Debug, Clone)]
        pub struct #name #lifetime { #(#fields,)* #unknown }

        impl #krate::FeedDict for #name #elided {
            fn feed(&self, name: &::core::primitive::str) -> ::core::option::Option<#krate::InputView<'_>> {
                match name {
                    #(#arms,)*
                    _ => ::core::option::Option::None,
                }
            }
        }
    }
}

fn feeds_of_prediction(
    types: &Types<'_>,
    members: &[Member],
    declared: &Declared<'_>,
) -> TokenStream {
    let doc = "What a prediction is fed: the inputs that the outputs depend on.";
    feeds(types, "Inputs", doc, members, &[], declared)
}

/// A type of the module of which a mistake hides all members; feeds have a lifetime.
fn unknown_type_of(name: &str, has_lifetime: bool) -> TokenStream {
    let name = format_ident!("{name}");
    let lifetime = has_lifetime.then(|| quote! { <'a> });
    quote! {
        #[allow(missing_docs)]
        pub type #name #lifetime = __Unknown;
    }
}

/// The fields of what a mistake leaves without a type.
fn unknown_fields(kind: DeclarationKind, names: &[String], declared: &Declared<'_>) -> TokenStream {
    let fields = names.iter().filter_map(|name| {
        let field = identifier(name, declared.span(kind, name))?;
        let doc = declared.docs(kind, name, format!("`{name}`, without a type yet."));
        Some(quote! { #doc pub #field: __Unknown, })
    });
    fields.collect()
}

/// The values of such fields.
fn unknown_values(names: &[String]) -> TokenStream {
    let fields = (names.iter()).filter_map(|name| identifier(name, Span::call_site()));
    fields
        .map(|field| quote! { #field: ::core::unreachable!(), })
        .collect()
}

/// Whether some sizes of a value are known at run time alone.
fn is_counted(ty: &TensorType) -> bool {
    ty.shape.0.iter().any(|dim| dim.count.is_some())
}

/// The losses and metrics of a step.
fn fetches(
    types: &Types<'_>,
    interface: &Interface,
    unknown: &Unknown,
    declared: &Declared<'_>,
) -> Fetches {
    if unknown.model {
        return Fetches {
            tokens: unknown_type_of("Fetches", false),
            elided: TokenStream::new(),
        };
    }
    let private = types.private();
    let losses = (interface.losses.iter()).map(|one| ("loss", DeclarationKind::Loss, one));
    let metrics = (interface.metrics.iter()).map(|one| ("metric", DeclarationKind::Metric, one));
    let (mut fields, mut values, mut borrows) = (Vec::new(), Vec::new(), false);
    let mut taken = std::collections::BTreeSet::new();
    for (word, kind, member) in losses.chain(metrics) {
        let span = declared.span(kind, &member.name);
        let Some(field) = identifier(&member.name, span) else {
            continue;
        };
        if is_counted(&member.ty) || !taken.insert(member.name.clone()) {
            continue;
        }
        let fetch = format!("{word}/{}", member.name);
        let known = format!("The {word} `{}: {}`.", member.name, member.ty);
        let doc = declared.docs(kind, &member.name, known);
        let (ty, value) = match member.ty.rank() {
            0 => (
                types.element(member.ty.dtype),
                quote! { values.scalar(#fetch) },
            ),
            _ => {
                borrows = true;
                (types.array_view(&member.ty), quote! { values.view(#fetch) })
            }
        };
        let Some(ty) = ty else { continue };
        fields.push(quote! { #doc pub #field: #ty });
        values.push(quote! { #field: #value });
    }
    let unknown_losses = unknown_fields(DeclarationKind::Loss, &unknown.losses, declared);
    let unknown_metrics = unknown_fields(DeclarationKind::Metric, &unknown.metrics, declared);
    let unknown_values = [
        unknown_values(&unknown.losses),
        unknown_values(&unknown.metrics),
    ];
    let (declared, values_ty) = match borrows {
        true => (quote! { <'a> }, quote! { #private::Values<'a> }),
        false => (quote! {}, quote! { #private::Values<'_> }),
    };
    let elided = match borrows {
        true => quote! { <'_> },
        false => quote! {},
    };
    let tokens = quote! {
        /// What a step or an evaluation gives: losses, from before the update, and metrics.
        #[derive(Debug, Clone)]
        pub struct Fetches #declared { #(#fields,)* #unknown_losses #unknown_metrics }

        impl #declared Fetches #declared {
            #[allow(unused_variables, unreachable_code)]
            fn of(values: #values_ty) -> Fetches #declared {
                Fetches { #(#values,)* #(#unknown_values)* }
            }
        }
    };
    Fetches { tokens, elided }
}

/// The struct of losses and metrics, and its lifetime where it is left to the compiler.
struct Fetches {
    tokens: TokenStream,
    elided: TokenStream,
}

/// The outputs of a prediction.
fn outputs(
    types: &Types<'_>,
    interface: &Interface,
    unknown: &Unknown,
    declared: &Declared<'_>,
) -> TokenStream {
    let (krate, private) = (&types.0.krate, types.private());
    let kind = DeclarationKind::Output;
    let outputs = interface.outputs.iter().filter_map(|member| {
        let field = identifier(&member.name, declared.span(kind, &member.name))?;
        let fetch = format!("output/{}", member.name);
        let known = format!("The output `{}: {}`.", member.name, member.ty);
        let doc = declared.docs(kind, &member.name, known);
        let name = &member.name;
        let (ty, value) = match (is_counted(&member.ty), member.ty.rank()) {
            (true, _) => (quote! { #krate::Tensor }, quote! { values.output(#name) }),
            (false, 0) => (
                types.element(member.ty.dtype)?,
                quote! { values.scalar(#fetch) },
            ),
            (false, _) => {
                let ty = types.array(&member.ty)?;
                (ty, quote! { values.view(#fetch).to_owned() })
            }
        };
        let field_tokens = quote! { #doc pub #field: #ty };
        Some((field_tokens, quote! { #field: #value }))
    });
    let (fields, values): (Vec<_>, Vec<_>) = outputs.unzip();
    let unknown_fields = unknown_fields(kind, &unknown.outputs, declared);
    let unknown_values = unknown_values(&unknown.outputs);
    quote! {
        /// What a prediction gives: the outputs of the model in evaluation mode.
        #[derive(Debug, Clone)]
        pub struct Outputs { #(#fields,)* #unknown_fields }

        impl Outputs {
            #[allow(unused_variables, unreachable_code)]
            fn of(values: #private::Values<'_>) -> Outputs {
                Outputs { #(#values,)* #unknown_values }
            }
        }
    }
}

/// The session, and what it does.
fn session(
    types: &Types<'_>,
    interface: &Interface,
    unknown: &Unknown,
    fetches: &Fetches,
) -> TokenStream {
    let (krate, private) = (&types.0.krate, types.private());
    let elided = |members: usize| match members {
        0 => quote! {},
        _ => quote! { <'_> },
    };
    let feeds = elided(interface.inputs.len() + unknown.inputs.len());
    let inputs = elided(interface.prediction_inputs.len());
    let fetched = &fetches.elided;
    let params = match unknown.variables {
        false => quote! {
            pub fn params(&self) -> params::Params<'_> {
                params::Params::of(self.session.state())
            }
        },
        true => quote! {
            pub fn params(&self) -> __Unknown {
                ::core::unreachable!()
            }
        },
    };
    let has_outputs = !interface.outputs.is_empty() || unknown.has_unknown_outputs();
    let predict = has_outputs.then(|| {
        quote! {
            /// The outputs of the model in evaluation mode; no state is written.
            pub fn predict(&mut self, inputs: &Inputs #inputs) -> ::core::result::Result<Outputs, #krate::Error> {
                self.session.predict(inputs)?;
                ::core::result::Result::Ok(Outputs::of(#private::Values::of(&self.session)))
            }
        }
    });
    quote! {
        /// A session of the spec: its state, and its compiled programs.
        #[derive(Debug)]
        pub struct Session {
            session: #krate::Session,
        }

        impl Session {
            /// A session with the initial values of its variables.
            pub fn new() -> ::core::result::Result<Session, #krate::Error> {
                Session::builder().build()
            }

            /// What a session is made of, given step by step.
            pub fn builder() -> Builder {
                Builder { builder: #krate::SessionBuilder::embedded(&__EMBEDDED_SPEC) }
            }

            /// One update. The losses and metrics are those of before it.
            pub fn step(&mut self, feeds: &Feeds #feeds) -> ::core::result::Result<Fetches #fetched, #krate::Error> {
                self.session.step(feeds)?;
                ::core::result::Result::Ok(Fetches::of(#private::Values::of(&self.session)))
            }

            /// One update over as many batches as `accumulate` says. The losses and metrics are means of those of before it.
            pub fn step_batches(&mut self, batches: &[Feeds #feeds]) -> ::core::result::Result<Fetches #fetched, #krate::Error> {
                let batches: ::std::vec::Vec<&dyn #krate::FeedDict> =
                    batches.iter().map(|batch| batch as &dyn #krate::FeedDict).collect();
                self.session.step_batches(&batches)?;
                ::core::result::Result::Ok(Fetches::of(#private::Values::of(&self.session)))
            }

            /// The losses and metrics of the model in evaluation mode; no state is written.
            pub fn eval(&mut self, feeds: &Feeds #feeds) -> ::core::result::Result<Fetches #fetched, #krate::Error> {
                self.session.eval(feeds)?;
                ::core::result::Result::Ok(Fetches::of(#private::Values::of(&self.session)))
            }

            #predict

            /// Saves the state at a prefix, as a checkpoint that TensorFlow reads; gives the prefix.
            pub fn save(
                &mut self,
                prefix: impl ::core::convert::AsRef<::std::path::Path>,
            ) -> ::core::result::Result<::std::path::PathBuf, #krate::Error> {
                self.session.save(prefix)
            }

            /// Replaces the state by that of a checkpoint.
            pub fn restore(
                &mut self,
                checkpoint: impl ::core::convert::AsRef<::std::path::Path>,
            ) -> ::core::result::Result<(), #krate::Error> {
                self.session.restore(checkpoint)
            }

            /// The variables of the model, by path.
            #params

            /// The number of updates so far.
            pub fn global_step(&self) -> ::core::primitive::u64 {
                self.session.global_step()
            }

            /// A session of its own with a copy of the state, for another thread: what one of them has compiled the other runs, too.
            pub fn fork(&self) -> ::core::result::Result<Session, #krate::Error> {
                ::core::result::Result::Ok(Session { session: self.session.fork()? })
            }

            /// The session without its types: everything by name.
            pub fn session(&mut self) -> &mut #krate::Session {
                &mut self.session
            }
        }
    }
}

/// The builder of sessions, with the methods for what the program registers.
fn builder(krate: &TokenStream, registered: &TokenStream) -> TokenStream {
    quote! {
        /// Makes sessions, or whole runs, of the spec.
        #[derive(Debug, Clone)]
        pub struct Builder {
            builder: #krate::SessionBuilder,
        }

        impl Builder {
            fn with(
                self,
                change: impl ::core::ops::FnOnce(#krate::SessionBuilder) -> #krate::SessionBuilder,
            ) -> Builder {
                Builder { builder: change(self.builder) }
            }

            /// Another seed than that of the spec.
            pub fn seed(self, seed: ::core::primitive::i64) -> Builder {
                self.with(|b| b.seed(seed))
            }

            /// The number of threads; results do not depend on it.
            pub fn threads(self, threads: ::core::primitive::usize) -> Builder {
                self.with(|b| b.threads(threads))
            }

            /// The folder of a run: checkpoints, event files, `run.json`.
            pub fn dir(self, dir: impl ::core::convert::Into<::std::path::PathBuf>) -> Builder {
                self.with(|b| b.dir(dir))
            }

            /// The base of relative data paths; otherwise the working folder.
            pub fn data_dir(self, dir: impl ::core::convert::Into<::std::path::PathBuf>) -> Builder {
                self.with(|b| b.data_dir(dir))
            }

            /// The number of steps of a run, instead of what the spec says.
            pub fn steps(self, steps: ::core::primitive::u64) -> Builder {
                self.with(|b| b.steps(steps))
            }

            /// The checkpoint that the session starts from.
            pub fn restore(self, checkpoint: impl ::core::convert::Into<::std::path::PathBuf>) -> Builder {
                self.with(|b| b.restore(checkpoint))
            }

            /// Another value of a constant of the spec. One on which a type of this module depends is an error of `build`.
            pub fn set(
                self,
                name: impl ::core::convert::Into<::std::string::String>,
                value: impl ::core::fmt::Display,
            ) -> Builder {
                self.with(|b| b.set(name, value))
            }

            #registered

            /// Runs after variables have got their initial values, unless a checkpoint is restored.
            pub fn init_fn(
                self,
                init_fn: impl ::core::ops::Fn(&mut #krate::Session) -> ::core::result::Result<(), #krate::Error>
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            ) -> Builder {
                self.with(|b| b.init_fn(init_fn))
            }

            /// A listener of the `checkpoint` hook: it acts before and after every save, which is waited for then. Each run makes its own.
            pub fn listener<L: #krate::hooks::CheckpointSaverListener + 'static>(
                self,
                factory: impl ::core::ops::Fn() -> ::core::result::Result<L, #krate::Error>
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            ) -> Builder {
                self.with(|b| b.listener(move || {
                    let made = factory()?;
                    ::core::result::Result::Ok(
                        ::std::boxed::Box::new(made) as ::std::boxed::Box<dyn #krate::hooks::CheckpointSaverListener>
                    )
                }))
            }

            /// Options, and what is registered under other names, through the builder without types.
            pub fn configure(
                self,
                change: impl ::core::ops::FnOnce(#krate::SessionBuilder) -> #krate::SessionBuilder,
            ) -> Builder {
                self.with(change)
            }

            /// Makes the session.
            pub fn build(self) -> ::core::result::Result<Session, #krate::Error> {
                ::core::result::Result::Ok(Session { session: self.builder.build()? })
            }

            /// Runs the spec as it says, with its data, evaluations and hooks; gives a session with the trained state.
            pub fn run(
                self,
                observer: &mut dyn #krate::Observer,
            ) -> ::core::result::Result<Session, #krate::Error> {
                ::core::result::Result::Ok(Session { session: self.builder.run(observer)? })
            }
        }
    }
}
