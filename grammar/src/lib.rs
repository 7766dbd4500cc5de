//! The grammar of the Trainspec language (a parsing expression grammar, PEG): `trainspec.pest` and the parser derived from it.
//!
//! In: source text. Out: pest pairs. Syntax is decided here and nowhere else; semantics by the front end.
//!
//! ```
//! use pest::Parser;
//! use trainspec_grammar::{Grammar, Rule};
//!
//! let mut pairs = Grammar::parse(Rule::file, "spec tiny; const N = 3;").unwrap();
//! assert_eq!(pairs.next().unwrap().as_rule(), Rule::file);
//! ```

// The derived code asks for `alloc` by name.
extern crate alloc;

// Makes the crate depend on the file, so that a changed grammar is always compiled.
const _: &str = include_str!("../trainspec.pest");

mod derived {
    // The derive writes one undocumented variant per rule; the grammar file documents them.
    #![allow(missing_docs)]

    #[derive(pest_derive::Parser)]
    #[grammar = "../trainspec.pest"]
    pub struct Grammar;
}

pub use derived::{Grammar, Rule};

impl Rule {
    /// Whether this rule is a keyword (`let`, `for`, …).
    pub fn is_keyword(self) -> bool {
        use Rule::*;
        matches!(
            self,
            kw_as
                | kw_called
                | kw_block
                | kw_by
                | kw_const
                | kw_data
                | kw_edition
                | kw_else
                | kw_eval
                | kw_fn
                | kw_for
                | kw_hooks
                | kw_if
                | kw_in
                | kw_init
                | kw_layer
                | kw_let
                | kw_loss
                | kw_metric
                | kw_minimizing
                | kw_model
                | kw_optimizer
                | kw_output
                | kw_param
                | kw_scalar
                | kw_scan
                | kw_schedule
                | kw_slot
                | kw_spec
                | kw_state
                | kw_then
                | kw_train
                | kw_use
                | kw_warm_start
                | kw_where
                | kw_yield
        )
    }
}
