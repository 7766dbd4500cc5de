//! Diagnostics of a spec as errors and warnings of the Rust compiler, at the tokens that they are about.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use trainspec_frontend::diag::{Diagnostic, Style, render};

use crate::CheckedSpec;

/// The diagnostics of a spec.
pub(crate) struct Report<'s> {
    pub(crate) spec: &'s CheckedSpec,
    pub(crate) call_site: Span,
}

impl Report<'_> {
    /// A `compile_error!` for each error.
    pub(crate) fn errors(&self) -> TokenStream {
        let diagnostics = self.spec.checked.diagnostics.iter();
        let errors = diagnostics.filter(|one| one.is_error());
        errors.map(|error| self.error(error)).collect()
    }

    /// The use of something deprecated for each warning. It stands in the module, so that `#[allow(deprecated)]` there silences it.
    pub(crate) fn warnings(&self) -> TokenStream {
        let diagnostics = self.spec.checked.diagnostics.iter();
        let warnings = diagnostics.filter(|one| !one.is_error());
        warnings.map(|warning| self.warning(warning)).collect()
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
