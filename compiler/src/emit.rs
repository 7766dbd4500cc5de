//! Any stage as text, by name.

use crate::source::Loader;
use crate::{Compilation, Options, dump, syntax, typed};

/// A stage of the compilation that has a textual form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The syntax tree, with the place of every node.
    Ast,
    /// The typed spec.
    Typed,
}

impl Stage {
    /// All stages, in the order in which they follow each other.
    pub const ALL: [Stage; 2] = [Stage::Ast, Stage::Typed];

    /// The name, as `emit --stage NAME` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Ast => "ast",
            Stage::Typed => "typed",
        }
    }

    /// The text of this stage; `Err` holds the diagnostics of a spec that does not come so far.
    ///
    /// ```
    /// use trainspec_compiler::{Options, Stage, source::NoFiles};
    ///
    /// let text = Stage::Typed.emit("a", "spec a; const N = 1 + 1;", &NoFiles, &Options::default());
    /// assert!(text.unwrap().contains("const N = 2"));
    /// ```
    pub fn emit(
        self,
        name: &str,
        text: &str,
        loader: &dyn Loader,
        options: &Options,
    ) -> Result<String, Box<Compilation>> {
        match self {
            Stage::Ast => {
                let mut sources = crate::source::Sources::default();
                let root = sources.add(name, text);
                let (parsed, diagnostics) = syntax::parse(root, text);
                if diagnostics.is_empty() {
                    return Ok(dump::dump(&parsed.file));
                }
                Err(Box::new(Compilation {
                    sources,
                    diagnostics,
                    spec: None,
                }))
            }
            Stage::Typed => {
                let compilation = Compilation::check(name, text, loader, options);
                match &compilation.spec {
                    Some(spec) => Ok(typed::print(spec)),
                    None => Err(Box::new(compilation)),
                }
            }
        }
    }
}
