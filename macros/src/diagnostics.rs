//! Diagnostics of a spec as errors and warnings of the Rust compiler, at the tokens that they are about.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use trainspec_frontend::declarations::DeclarationKind;
use trainspec_frontend::diag::{Code, Diagnostic, Style, render};

use crate::CheckedSpec;
use crate::constants::is_in_module;

/// The diagnostics of a spec.
pub(crate) struct Report<'s> {
    pub(crate) spec: &'s CheckedSpec,
    pub(crate) call_site: Span,
}

impl Report<'_> {
    /// A `compile_error!` for each error.
    pub(crate) fn errors(&self) -> Vec<TokenStream> {
        let diagnostics = self.spec.checked.diagnostics.iter();
        let errors = diagnostics.filter(|one| one.is_error());
        errors.map(|error| self.error(error)).collect()
    }

    /// The use of something deprecated for each warning. It stands in the module, so that `#[allow(deprecated)]` there silences it.
    ///
    /// A constant of the module is used by whoever reads it, so that one which the spec does not use is no warning.
    pub(crate) fn warnings(&self) -> TokenStream {
        let diagnostics = self.spec.checked.diagnostics.iter();
        let is_unused_constant =
            |one: &Diagnostic| one.code == Code::Unused && self.is_constant(one.span);
        let warnings = diagnostics.filter(|one| !one.is_error() && !is_unused_constant(one));
        warnings.map(|warning| self.warning(warning)).collect()
    }

    /// Whether that is the name of a constant of the module.
    fn is_constant(&self, span: Option<trainspec_ir::Span>) -> bool {
        let mut constants = self.spec.declarations.of_kind(DeclarationKind::Constant);
        let declared = constants.find(|(_, declared)| Some(declared.span) == span);
        let named = declared.and_then(|(name, _)| {
            let mut values = self
                .spec
                .checked
                .spec
                .iter()
                .flat_map(|spec| &spec.constants);
            values.find(|(constant, _)| constant == name)
        });
        named.is_some_and(|(name, value)| is_in_module(name, value))
    }

    fn text(&self, diagnostic: &Diagnostic) -> String {
        let text = render(&self.spec.sources, diagnostic, Style::Plain);
        text.trim_end().to_owned()
    }

    fn error(&self, error: &Diagnostic) -> TokenStream {
        let (text, (first, last)) = (self.text(error), self.spans(error));
        // The compiler underlines from the first token to the last.
        let call = quote_spanned! { first=> ::core::compile_error! };
        let message = quote_spanned! { last=> { #text } };
        quote! { #call #message }
    }

    fn warning(&self, warning: &Diagnostic) -> TokenStream {
        let (text, (first, _)) = (self.text(warning), self.spans(warning));
        // The only warning that a stable compiler takes from a macro: something deprecated is used. It has the span of the token.
        let used = quote_spanned! { first=> trainspec_warning };
        quote! {
            const _: () = {
                #[deprecated(note = #text)]
                #[allow(non_upper_case_globals)]
                const trainspec_warning: () = ();
                #used
            };
        }
    }

    /// The spans of the first and the last token that a diagnostic is about.
    fn spans(&self, diagnostic: &Diagnostic) -> (Span, Span) {
        let spans = (self.spec.tokens.as_ref()).zip(diagnostic.span);
        let spans = spans.and_then(|(tokens, span)| tokens.spans_at(span.range()));
        spans.unwrap_or((self.call_site, self.call_site))
    }
}
