//! The invocation: what stands between the braces of `train!`, before the spec itself.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::ParseStream;
use syn::{Attribute, Ident, LitStr, Path, Token, Visibility};

/// The parts of an invocation.
pub(crate) struct Invocation {
    /// The path of the crate `trainspec`.
    pub(crate) krate: TokenStream,
    /// Attributes and documentation of the module.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) spec: SpecTokens,
    span: Span,
}

/// The spec: its tokens, or the path of its file.
pub(crate) enum SpecTokens {
    Inline(TokenStream),
    File(LitStr),
}

impl Invocation {
    /// `$crate; [crate = ::path;] [#[..]] [pub] spec name; ...`, or `file: "path"` after the visibility.
    pub(crate) fn parse(input: ParseStream<'_>) -> syn::Result<Invocation> {
        let mut krate = TokenStream::new();
        while !input.peek(Token![;]) {
            krate.extend([input.parse::<TokenTree>()?]);
        }
        input.parse::<Token![;]>()?;
        let span = input.span();
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            krate = input.call(Path::parse_mod_style)?.into_token_stream();
            input.parse::<Token![;]>()?;
        }
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility: Visibility = input.parse()?;
        if input.is_empty() {
            let message =
                "a spec is missing here: write `spec NAME; ...`, or `file: \"NAME.trainspec\"`";
            return Err(syn::Error::new(Span::call_site(), message));
        }
        Ok(Invocation {
            krate,
            attributes,
            visibility,
            spec: spec(input)?,
            span,
        })
    }

    /// The first token of the user's.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// The tokens of a path into the crate.
    pub(crate) fn private(&self) -> TokenStream {
        let krate = &self.krate;
        quote! { #krate::__private }
    }
}

fn spec(input: ParseStream<'_>) -> syn::Result<SpecTokens> {
    let is_file = input
        .fork()
        .parse::<Ident>()
        .is_ok_and(|word| word == "file");
    if !is_file || !input.peek2(Token![:]) {
        return Ok(SpecTokens::Inline(input.parse()?));
    }
    input.parse::<Ident>()?;
    input.parse::<Token![:]>()?;
    let path: LitStr = input.parse()?;
    input.parse::<Option<Token![,]>>()?;
    match input.is_empty() {
        true => Ok(SpecTokens::File(path)),
        false => Err(input.error("nothing follows the path of a spec file")),
    }
}
