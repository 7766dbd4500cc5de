//! The canonical layout.

use trainspec_frontend::diag::Code;
use trainspec_frontend::dump::dump_without_spans;
use trainspec_frontend::fmt::format;
use trainspec_frontend::syntax::{self, Parsed};
use trainspec_ir::FileId;

fn parse(text: &str) -> Parsed {
    let (parsed, errors) = syntax::parse(FileId(0), text);
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    parsed
}

fn comments(parsed: &Parsed) -> Vec<&str> {
    parsed.comments.iter().map(|c| c.text.as_str()).collect()
}

#[track_caller]
fn becomes(before: &str, after: &str) {
    let formatted = format(before).expect("the text parses");
    assert_eq!(
        formatted, after,
        "\n--- is\n{formatted}--- should be\n{after}"
    );
    assert_eq!(
        format(after).as_deref(),
        Ok(after),
        "a second run changes it"
    );
}

#[track_caller]
fn stays(text: &str) {
    becomes(text, text);
}

#[test]
fn every_spec_keeps_its_tree_and_comments() {
    for spec in crate::support::specs::all() {
        let path = spec.path.display();
        let formatted = format(&spec.text).expect("the text parses");
        let parsed = parse(&formatted);
        let tree = dump_without_spans(&spec.parsed.file);
        assert_eq!(
            dump_without_spans(&parsed.file),
            tree,
            "{path}: the tree changes"
        );
        assert_eq!(
            comments(&parsed),
            comments(&spec.parsed),
            "{path}: comments change"
        );
        assert_eq!(
            format(&formatted),
            Ok(formatted),
            "{path}: a second run changes it"
        );
    }
}

#[test]
fn syntax_errors_are_rejected() {
    let errors = format("const A = ;").expect_err("nothing follows the `=`");
    assert_eq!(errors[0].code, Code::Syntax);
}

#[test]
fn byte_order_marks_and_carriage_returns_are_repaired() {
    becomes(
        "\u{feff}// top\r\nconst A = 1;\r\n\r\nconst B = 2; // b\r\n",
        "// top\nconst A = 1;\n\nconst B = 2;  // b\n",
    );
}

#[test]
fn empty_texts_stay_empty() {
    stays("");
    becomes("\n\n  \n", "");
    stays("// only a comment\n");
}

#[test]
fn items_have_one_empty_line_between_them_but_constants_may_stand_in_rows() {
    becomes(
        "//! Docs.\nspec a , edition 1;\nuse \"b\";\nconst A=1;\n\n\n\nconst B=2;\nfn f() = 1;\n\n\n// about g\nfn g() = 2;",
        "//! Docs.\nspec a, edition 1;\n\nuse \"b\";\nconst A = 1;\n\nconst B = 2;\n\nfn f() = 1;\n\n// about g\nfn g() = 2;\n",
    );
}

#[test]
fn statements_keep_at_most_one_empty_line() {
    becomes(
        "fn f(x) {\n\n\nlet a = 1;\n\n\nlet b = 2;\n// c\n\nx\n\n}",
        "fn f(x) {\n    let a = 1;\n\n    let b = 2;\n    // c\n\n    x\n}\n",
    );
}

#[test]
fn settings_stand_in_columns_unless_on_one_line() {
    becomes(
        "train { data a;\n optimizer adam(0.1) for \"x/*\" minimizing g;\nsteps 2; very_long_setting 1; plain; }",
        "train { data a; optimizer adam(0.1) for \"x/*\" minimizing g; steps 2; very_long_setting 1; plain; }\n",
    );
    becomes(
        "train {\n data a; optimizer adam(0.1) for \"x/*\" minimizing g;\nsteps 2; very_long_setting 1; plain; }",
        "train {\n    data      a;\n    optimizer adam(0.1) for \"x/*\" minimizing g;\n    steps     2;\n    very_long_setting 1;\n    plain;\n}\n",
    );
}

#[test]
fn arguments_of_settings_follow_a_space_and_those_of_calls_do_not() {
    becomes(
        "hooks {\nhook \"my_hook\"(threshold: 0.5);\nnan(loss);\nsummary(every: 1 step) {scalar [a]; };\n}",
        "hooks {\n    hook    \"my_hook\" (threshold: 0.5);\n    nan     (loss);\n    summary (every: 1 step) { scalar [a]; }\n}\n",
    );
    becomes(
        "warm_start(a , b : f (x) [ 0 ] . y);",
        "warm_start (a, b: f(x)[0].y);\n",
    );
}

#[test]
fn long_lists_have_one_element_on_a_line() {
    becomes(
        "fn f(x: T[.., n], units: int, const use_bias = true, kernel_init = glorot_uniform(), bias_init = zeros(),) where T: float { x }",
        "fn f(
    x: T[.., n],
    units: int,
    const use_bias = true,
    kernel_init = glorot_uniform(),
    bias_init = zeros(),
) where T: float { x }
",
    );
    becomes(
        "const A = [1,2,(3,),(4,5,),];",
        "const A = [1, 2, (3,), (4, 5)];\n",
    );
}

#[test]
fn a_value_moves_below_the_equals_sign_if_it_fits_there() {
    becomes(
        "schedule exponential_decay(learning_rate, decay_steps, decay_rate) = learning_rate * pow(decay_rate, step / decay_steps);",
        "schedule exponential_decay(learning_rate, decay_steps, decay_rate) =
    learning_rate * pow(decay_rate, step / decay_steps);
",
    );
}

#[test]
fn chains_break_before_their_operators() {
    let term = "some_quite_long_function_name(first_argument)";
    becomes(
        &format!("const A = {term} + {term} - {term} * 2;"),
        &format!("const A = {term}\n    + {term}\n    - {term} * 2;\n"),
    );
    becomes(
        &format!("fn f(x) {{\nlet h = x |> {term} |> {term} |> relu;\nh }}"),
        &format!(
            "fn f(x) {{\n    let h = x\n        |> {term}\n        |> {term}\n        |> relu;\n    h\n}}\n"
        ),
    );
}

#[test]
fn bodies_stay_on_one_line_where_written_so() {
    stays("fn f(x) = if x == none { 0 } else { let y = x; y + 1 };\n");
    stays("fn f(x) = if x == none {\n    0\n} else {\n    x + 1\n};\n");
    becomes(
        "fn f(x) = if x == none {\n0 } else { x };",
        "fn f(x) = if x == none {\n    0\n} else {\n    x\n};\n",
    );
    becomes(
        "fn f(x) { let a = 1; let b = 2; a }",
        "fn f(x) {\n    let a = 1;\n    let b = 2;\n    a\n}\n",
    );
    becomes("fn f(x) {\n}", "fn f(x) {}\n");
    stays(
        "fn f(n) {\n    let w = for i in 1..n, k = 1 { k * i };\n    scan (a, _) in (w, w), h = 0 { yield h; h + a }\n}\n",
    );
}

#[test]
fn numbers_and_strings_have_one_form() {
    becomes(
        "const A = [1E5, 0xAE, 2_000, 1., r#\"a\"b\"#, \"\\x41\\u{e4}\\'\", 1. ..2, x[1 ..,..2 by 3,_,..,1..]];",
        "const A = [1e5, 0xAE, 2_000, 1., \"a\\\"b\", \"Aä'\", 1. ..2, x[1.., ..2 by 3, _, .., 1..]];\n",
    );
}

#[test]
fn parentheses_and_operators_stay() {
    becomes(
        "const A=-(  (a+b) )*!c@d..e-1;",
        "const A = -((a + b)) * !c @ d..e - 1;\n",
    );
    becomes(
        "fn f(x: T[<=n,..]) { m<-x < -1; }",
        "fn f(x: T[<=n, ..]) { m <- x < -1; }\n",
    );
}

#[test]
fn every_statement_has_its_form() {
    stays(
        r#"optimizer o(lr in 0..1 = 0.1) as "O" where T: float, I: int {
    /// A slot.
    slot m: T[n] as "M" = zeros;
    scalar p as "P" = a then p * a;
    let (a, _): T = x;
    param <- param - lr * old(m);
}

model (x: f32[batch, 3], y: i64[batch] in 0..10) {
    layer head = dense(10);
    loss mean(x);
    loss named = sum(x);
    metric m = x == y;
    output o = x;
}

data d {
    feature a: i64[] as "b" in 0..3 = 1;
    map     a = a + 1;
}
"#,
    );
}

#[test]
fn comments_stay_where_they_are() {
    stays(
        "// first

//! Docs.
spec a;

fn f(  // open
    a,  // after a
    // before b
    b,
    // at the end
) {  // body
    // before
    let x = a;  // after

    // apart
    x
    // last
}  // closed
// end
",
    );
}

#[test]
fn comments_inside_an_expression_end_its_lines() {
    becomes(
        "const A = a + // one\n b // two\n ;",
        "const A = a  // one\n    + b;  // two\n",
    );
    becomes(
        "const A = // why\nf(x // x\n, y);",
        "const A =  // why\n    f(\n        x,  // x\n        y,\n    );\n",
    );
    becomes("const // c\nA = 1;", "const  // c\n    A = 1;\n");
    becomes(
        "const A = if a { b } // no\nelse { c };",
        "const A = if a {\n    b\n}  // no\nelse {\n    c\n};\n",
    );
    becomes("const A = [ // none\n];", "const A = [  // none\n];\n");
}

#[test]
fn doc_attributes_become_lines() {
    becomes(
        "#![doc = \" Top.\"]\n#[doc = r\" One.\"] #[doc = \" Two.\\n Three.\"]\nfn f(#[doc = \"x\"] x) = x;",
        "//! Top.\n/// One.\n/// Two.\n/// Three.\nfn f(\n    ///x\n    x,\n) = x;\n",
    );
    // As a line this would be no documentation.
    stays("#[doc = \"/ slash\"]\nfn f() = 1;\n");
}

#[test]
fn deep_nesting_is_formatted() {
    let depth = syntax::MAX_BRACKET_DEPTH;
    let text = format!("const A = {}x{};", "[".repeat(depth), "]".repeat(depth));
    let formatted = format(&text).expect("it parses");
    assert_eq!(format(&formatted), Ok(formatted));
}
