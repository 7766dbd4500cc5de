//! Other values for the constants of a spec, in its text: what `--set NAME=VALUE` says, as source.

use trainspec_frontend::ast::ItemKind;
use trainspec_frontend::syntax;
use trainspec_ir::FileId;

/// The text with other values of its constants; those that it does not declare are passed over.
///
/// ```
/// use trainspec_compiler::ast_constants::with_values;
///
/// let text = "spec a;\nconst WIDTH = 4; // neurons\nconst RATE = 0.1;\n";
/// let wider = with_values(text, &[("WIDTH".to_owned(), "8".to_owned())]);
/// assert_eq!(wider, "spec a;\nconst WIDTH = 8; // neurons\nconst RATE = 0.1;\n");
/// ```
pub fn with_values(text: &str, values: &[(String, String)]) -> String {
    let (parsed, _) = syntax::parse(FileId(0), text);
    let mut text = text.to_owned();
    for item in parsed.file.items.iter().rev() {
        let ItemKind::Const(constant) = &item.kind else {
            continue;
        };
        let given = values
            .iter()
            .rev()
            .find(|(name, _)| *name == constant.name.text);
        if let Some((_, value)) = given {
            text.replace_range(constant.value.span.range(), value);
        }
    }
    text
}
