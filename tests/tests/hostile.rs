//! Whatever text is handed in: an answer, of bounded length, on a small stack. Inputs are chosen so that work which is not
//! bounded would not come to an end.

use std::collections::BTreeMap;

use trainspec_compiler::diag::{Style, render};
use trainspec_compiler::source::decode;
use trainspec_compiler::{Compilation, EmitOptions, Options, Stage, fmt, typed};

/// What a main thread has at least on the systems we know, a quarter of it.
const STACK: usize = 2 << 20;
/// How much a compilation may have to say.
const MAX_OUTPUT: usize = 8 << 20;

/// The codes of a compilation, in order.
type Codes = Vec<&'static str>;

/// Runs on a small stack.
fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    let result = thread.expect("a thread starts").join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Feeds a text to everything that takes one; the codes of the check.
#[track_caller]
fn survive_with(
    text: String,
    files: BTreeMap<String, String>,
    overrides: &[(&str, &str)],
) -> Codes {
    let overrides = overrides
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()))
        .collect();
    on_a_small_stack(move || {
        let options = Options { overrides };
        let compilation = Compilation::check("hostile", &text, &files, &options);
        let mut length = 0;
        for diagnostic in &compilation.diagnostics {
            length += render(&compilation.sources, diagnostic, Style::Plain).len();
        }
        assert!(length < MAX_OUTPUT, "{length} bytes of diagnostics");
        if let Ok(tidy) = fmt::format(&text) {
            assert!(
                fmt::format(&tidy).is_ok_and(|t| t == tidy),
                "not idempotent"
            );
        }
        assert_eq!(compilation.spec.is_some(), !compilation.failed());
        if let Some(spec) = &compilation.spec {
            assert!(typed::print(spec).starts_with("spec "));
        }
        let _ = Stage::Ast.emit("hostile", &text, &files, &options, &EmitOptions::default());
        let codes = compilation.diagnostics.iter();
        codes.map(|d| d.code.name()).collect()
    })
}

#[track_caller]
fn survive(text: impl Into<String>) -> Codes {
    survive_with(text.into(), BTreeMap::new(), &[])
}

/// The check must give this code.
#[track_caller]
fn refuses(text: impl Into<String>, code: &str) {
    let codes = survive(text);
    assert!(codes.contains(&code), "{:?}", first(&codes));
}

/// The check may warn at most.
#[track_caller]
fn accepts(text: impl Into<String>) {
    let codes = survive(text);
    assert!(codes.iter().all(|c| *c == "unused"), "{:?}", first(&codes));
}

fn first(codes: &Codes) -> &[&str] {
    &codes[..codes.len().min(5)]
}

fn model(body: &str) -> String {
    format!("spec s;\nmodel (x: f32[4, 4]) {{\n{body}\n}}\n")
}

fn constant(value: &str) -> String {
    format!("spec s;\nconst A = {value};\n")
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

// ---- Characters ----

#[test]
fn a_text_without_a_spec_is_reported() {
    refuses("", "empty-spec");
    refuses(" \n\t\n", "empty-spec");
    refuses("// nothing\n// at all", "empty-spec");
    refuses("//\n".repeat(300_000), "empty-spec");
    refuses("\n".repeat(4 << 20), "empty-spec");
    survive("//! only documentation\n");
    survive("/// documents nothing");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let code = |bytes: &[u8]| decode("x", bytes.to_vec()).map_err(|d| d.code.name());
    assert_eq!(code(b"spec a;\xff"), Err("not-utf8"));
    assert_eq!(code(&[0xc0, 0x80]), Err("not-utf8"));
    assert_eq!(code(&[0xed, 0xa0, 0x80]), Err("not-utf8"));
    assert_eq!(code(&[0xf4, 0x90, 0x80, 0x80]), Err("not-utf8"));
    assert_eq!(
        code("ä".as_bytes().split_last().unwrap().1),
        Err("not-utf8")
    );
    assert_eq!(code(&vec![b' '; (8 << 20) + 1]), Err("text-too-long"));
    assert_eq!(code(&vec![0xff; 8 << 20]), Err("not-utf8"));
}

#[test]
fn odd_characters_are_named() {
    refuses("spec a;\0", "bad-character");
    refuses("\0".repeat(1 << 20), "bad-character");
    refuses("\u{feff}spec a;", "byte-order-mark");
    refuses("\u{feff}", "byte-order-mark");
    refuses("spec a;\u{feff}", "bad-character");
    refuses("//! a\rb\nspec a;", "bad-character");
    refuses("// a\rb\nspec a;", "bad-character");
    refuses("spec ä;", "bad-character");
    refuses("é".repeat(500_000), "bad-character");
    refuses("'".repeat(500_000), "bad-character");
    refuses("\u{2028}\u{202e}spec a;", "bad-character");
    refuses("spec a; const A = 1ä;", "bad-character");
    refuses("spec a; const A = \"\\ä\";", "bad-escape");
    refuses("spec a; const A = \"\\u{ä}\";", "bad-escape");
    refuses("spec a; const A = \"\\xä\";", "bad-escape");
    accepts("spec a; const A = \"\u{202e}ä🦀\";");
}

#[test]
fn strings_are_bounded_and_end() {
    refuses(
        constant(&format!("\"{}\"", "a".repeat(10 << 20))),
        "text-too-long",
    );
    refuses(
        constant(&format!("\"{}\"", "a".repeat(100 << 10))),
        "string-too-long",
    );
    accepts(constant(&format!("\"{}\"", "a".repeat(60 << 10))));
    accepts(constant(&format!("\"{}\"", "\\u{1}".repeat(10 << 10))));
    refuses("spec a; const A = \"", "unclosed-string");
    refuses("spec a; const A = \"\\", "unclosed-string");
    refuses("spec a; const A = \"\\\"", "unclosed-string");
    refuses(
        format!("spec a; const A = \"{}", "a".repeat(1 << 20)),
        "unclosed-string",
    );
    refuses("spec a; const A = \"\n\";", "unclosed-string");
    refuses("r\"", "unclosed-string");
    refuses(format!("r{}\"\"", "#".repeat(1 << 20)), "unclosed-string");
    survive(format!("r{}", "#".repeat(1 << 20)));
    survive("r#".repeat(50_000));
    survive("r#\"\"#".repeat(50_000));
}

#[test]
fn block_comments_are_reported() {
    refuses("spec a; /* b */", "block-comment");
    refuses("spec a; /* b", "block-comment");
    survive("/*".repeat(100_000));
    survive("/* */".repeat(50_000));
}

// ---- Brackets ----

#[test]
fn endless_brackets_are_too_deep() {
    for open in ["(", "[", "{"] {
        refuses(open.repeat(1 << 20), "too-deep");
        refuses(constant(&open.repeat(1 << 20)), "too-deep");
    }
    for close in [")", "]", "}"] {
        refuses(close.repeat(1 << 20), "unbalanced-bracket");
    }
    refuses("spec a; model (x: f32[1]) {", "unbalanced-bracket");
    refuses("spec a; const A = (1;", "unbalanced-bracket");
    refuses("(", "unbalanced-bracket");
    for pair in ["()", "[]", "{}", "(]"] {
        survive(pair.repeat(20_000));
        survive(constant(&pair.repeat(20_000)));
        survive(model(&pair.repeat(20_000)));
    }
    refuses(model(&nested("{", "", "}", 100_000)), "too-deep");
    refuses(model(&nested("if true {", "x", "}", 100_000)), "too-deep");
    refuses(
        format!("spec s; train {}", nested("{ a ", "", "}", 100_000)),
        "too-deep",
    );
}

#[test]
fn a_hundred_brackets_of_any_kind_are_fine() {
    accepts(constant(&nested("(", "1", ")", 100)));
    accepts(constant(&nested("[", "1", "]", 100)));
    accepts(constant(&nested("(", "1", ",)", 100)));
    accepts(constant(&nested("-(", "1", ")", 100)));
    refuses(constant(&nested("1 + (", "1", ") * 1", 100)), "too-deep");
    accepts(constant(&nested("abs(", "1", ")", 100)));
    accepts(constant(&nested("pow(1, ", "1", ")", 100)));
    accepts(constant(&nested("[0][", "0", "]", 100)));
    accepts(constant(&nested("if true { ", "1", " }", 100)));
    accepts(constant(&nested("if false { 1 } else { ", "1", " }", 100)));
    accepts(constant(&nested("for i in 0..1, a = 1 { ", "1", " }", 100)));
    accepts(constant(&nested("for _ in 0..1 { yield ", "1", "; }", 100)));
    accepts(constant(&nested(
        "1 + if true { let a = 1; 1 + ",
        "1",
        " }",
        100,
    )));
    accepts(model(&format!(
        "output y = {};",
        nested("abs(", "x", ")", 99)
    )));
    accepts(model(&format!(
        "output y = {};",
        nested("x |> add(", "x", ")", 99)
    )));
    accepts(model(&format!(
        "output y = {};",
        nested("(x + ", "x", ")", 99)
    )));
    let scans = nested("scan e in x, a = x[0] { a + ", "x[0]", " }", 98);
    accepts(model(&format!("output y = {scans};")));
    survive(model(&nested("if true {", "let a = x;", "}", 99)));
    survive(model(&nested("for i in 0..2 {", "let a = x;", "}", 99)));
    survive(format!(
        "spec s;\ntrain {{ {} }}",
        nested("a {", "b;", "}", 99)
    ));
    survive(format!(
        "spec s;\ndata d {{ {} }}",
        nested("a (x: 1) {", "b 1;", "}", 99)
    ));
    survive(format!(
        "spec s;\nhooks {{ {} }}",
        nested("a 1 for 2 {", "b c: f32;", "}", 99)
    ));
    survive(format!(
        "spec s;\nmodel (x: f32[{}]) {{ output y = x; }}",
        nested("(", "4", ")", 98)
    ));
    survive(format!(
        "spec s;\nfn f(a = {}) = a;",
        nested("(", "4", ")", 99)
    ));
}

#[test]
fn patterns_and_types_nest_only_so_deep() {
    let pattern = nested("(", "a", ",)", 99);
    let value = nested("(", "x", ",)", 99);
    accepts(model(&format!("let {pattern} = {value};\noutput y = a;")));
    refuses(
        model(&format!("let {pattern} = x;\noutput y = a;")),
        "pattern-mismatch",
    );
    refuses(
        model(&format!("let {} = x;", nested("(", "a", ")", 100_000))),
        "too-deep",
    );
    refuses(
        format!(
            "spec s; model (x: {}) {{ }}",
            nested("f32[", "1", "]", 100_000)
        ),
        "too-deep",
    );
    survive(format!(
        "spec s; model (x: {}) {{ output y = x; }}",
        nested("f32[", "1", "]", 98)
    ));
    let wide: String = (0..20_000).map(|i| format!("a{i}, ")).collect();
    survive(model(&format!("let ({wide}) = x;\noutput y = x;")));
    survive(model(&format!("let ({wide}) = ({wide});\noutput y = x;")));
}

// ---- Long and flat ----

#[test]
fn long_rows_of_prefixes_are_fine() {
    accepts(constant(&format!("{}1", "-".repeat(1 << 20))));
    accepts(constant(&format!("{}true", "!".repeat(1 << 20))));
    refuses(
        constant(&format!("{}1", "-!".repeat(100_000))),
        "type-mismatch",
    );
    refuses(constant(&"-".repeat(100_000)), "syntax");
    refuses(constant(&"!".repeat(100_000)), "syntax");
    accepts(model(&format!("output y = {}x;", "-".repeat(100_000))));
}

#[test]
fn long_chains_of_operators_are_fine() {
    let sum = |a: &str| format!("{a}{}", format!(" + {a}").repeat(100_000));
    accepts(constant(&sum("1")));
    accepts(constant(&sum("1.5")));
    accepts(model(&format!("output y = {};", sum("x"))));
    accepts(model(&format!("let a = x;\noutput y = {};", sum("a"))));
    accepts(format!("spec s; const B = 1; const A = {};", sum("B")));
    accepts(constant(&format!("1{}", " - 1 * 2".repeat(100_000))));
    accepts(constant(&format!(
        "true{}",
        " && true || false".repeat(50_000)
    )));
    refuses(constant(&format!("1{}", " < 1".repeat(100_000))), "syntax");
    refuses(constant(&format!("1{}", " +".repeat(100_000))), "syntax");
    refuses(
        constant(&format!("1{}", " * 2".repeat(100_000))),
        "size-overflow",
    );
    refuses(constant(&format!("1{}", "..1".repeat(100_000))), "syntax");
}

#[test]
fn long_rows_of_postfixes_are_fine() {
    accepts(model(&format!(
        "output y = x{};",
        " |> abs".repeat(100_000)
    )));
    accepts(model(&format!(
        "output y = x{};",
        " |> add(1)".repeat(100_000)
    )));
    refuses(
        model(&format!("output y = x{};", "[0]".repeat(100_000))),
        "rank-mismatch",
    );
    accepts(model(&format!("output y = x{};", "[..]".repeat(100_000))));
    refuses(
        constant(&format!("[1]{}", "[0]".repeat(100_000))),
        "type-mismatch",
    );
    refuses(
        constant(&format!("abs{}", "(1)".repeat(100_000))),
        "not-callable",
    );
    refuses(
        constant(&format!("a{}", ".a".repeat(100_000))),
        "unknown-name",
    );
}

#[test]
fn long_rows_of_branches_are_fine() {
    let branches = " else if false { 1 }".repeat(100_000);
    accepts(constant(&format!(
        "if false {{ 1 }}{branches} else {{ 2 }}"
    )));
    accepts(constant(&format!(
        "if true {{ 1 }}{}",
        &branches[..200_000]
    )));
    refuses(
        constant(&format!("if false {{ 1 }}{}", " else".repeat(100_000))),
        "syntax",
    );
}

#[test]
fn long_lists_and_rows_of_items_are_fine() {
    accepts(constant(&format!("[{}]", "1, ".repeat(50_000))));
    accepts(constant(&format!("({})", "1, ".repeat(50_000))));
    survive(constant(&format!("max({})", "1, ".repeat(50_000))));
    survive(constant(&format!("abs({})", "x: 1, ".repeat(50_000))));
    accepts(format!(
        "spec s;\n{}",
        lines(50_000, |i| format!("const A{i} = {i};"))
    ));
    accepts(format!(
        "spec s;\n{}",
        lines(20_000, |i| format!("fn f{i}(x) = x + {i};"))
    ));
    let lets = lines(50_000, |i| format!("let a{} = a{i};", i + 1));
    accepts(model(&format!("let a0 = x;\n{lets}\noutput y = a50000;")));
    let outputs = lines(5_000, |i| format!("output y{i} = x;"));
    accepts(model(&outputs));
    let params = lines(5_000, |i| format!("param p{i}: f32[4] = zeros;"));
    survive(model(&format!("{params}\noutput y = x;")));
    survive(format!(
        "spec s;\n{}",
        lines(5_000, |i| format!("data d{i} {{ }}"))
    ));
    survive(format!(
        "spec s;\ntrain {{\n{}\n}}",
        "steps 1;\n".repeat(20_000)
    ));
    survive(format!(
        "spec s;\n{}model (x: f32[1]) {{}}",
        "/// doc\n".repeat(50_000)
    ));
    let inputs: String = (0..5_000).map(|i| format!("x{i}: f32[2], ")).collect();
    survive(format!("spec s; model ({inputs}) {{ output y = x0; }}"));
    let letters: String = (0..5_000).map(|i| format!("a{i}, ")).collect();
    survive(format!(
        "spec s; fn f({letters}) = a0; const A = f({});",
        "1, ".repeat(5_000)
    ));
    survive(format!(
        "spec s; fn f(x) where {} = x;",
        vec!["T: float"; 20_000].join(", ")
    ));
}

#[test]
fn long_names_and_lines_are_fine() {
    let name = "a".repeat(1 << 20);
    accepts(format!("spec s; const {name} = 1; const B = {name};"));
    accepts(format!("spec {name};\nconst A = 1;"));
    refuses(constant(&name), "unknown-name");
    refuses(
        format!("spec s; fn {name}() = 1; const A = {name}b();"),
        "unknown-name",
    );
    refuses(constant(&format!("abs({name}: 1)")), "unknown-argument");
    refuses(format!("spec s; train {{ {name} 1; }}"), "unknown-setting");
    refuses(
        format!("spec s; model (x: {name}[1]) {{ output y = x; }}"),
        "unknown-type",
    );
    refuses(name, "syntax");
    let line: String = (0..20_000).map(|i| format!("const A{i} = 1; ")).collect();
    accepts(format!("spec s; {line}"));
    let unknown: String = (0..2_000).map(|i| format!("const A{i} = b{i}; ")).collect();
    refuses(format!("spec s; {unknown}"), "unknown-name");
}

#[test]
fn many_mistakes_do_not_drown_the_reader() {
    for line in [
        "const A = ;",
        "const A = b;",
        "let",
        "}",
        "fn f(",
        "?",
        "1a",
        "x = = y;",
        "spec s;",
    ] {
        survive(format!("spec s;\n{}", format!("{line}\n").repeat(5_000)));
        survive(format!("spec s;\n{}", format!("{line} ").repeat(5_000)));
        survive(model(&format!("{line}\n").repeat(5_000)));
    }
    let codes = survive(format!(
        "spec s;\n{}",
        lines(50_000, |i| format!("const A{i} = b{i};"))
    ));
    assert!(!codes.is_empty() && codes.len() <= 1_000, "{}", codes.len());
    let codes = survive(model(&lines(50_000, |i| format!("let a{i} = b{i} +;"))));
    assert!(!codes.is_empty() && codes.len() <= 1_000, "{}", codes.len());
    let codes = survive(format!(
        "spec s;\nmodel (x: f32[1]) {{ output y = x; }}\n{}",
        lines(50_000, |i| format!("const A{i} = 1;"))
    ));
    assert!(codes.len() <= 1_000, "{}", codes.len());
}

// ---- Numbers ----

#[test]
fn numbers_that_overflow_are_refused() {
    let digits = "9".repeat(100_000);
    for number in [
        "9223372036854775808",
        "0x8000000000000000",
        "1e309",
        "1e999999999999",
        &digits,
    ] {
        refuses(constant(number), "number-overflow");
    }
    refuses(
        constant(&format!("0x{}", "f".repeat(100_000))),
        "number-overflow",
    );
    refuses(constant(&format!("{digits}.5")), "number-overflow");
    refuses(constant(&format!("1e{digits}")), "number-overflow");
    accepts(constant("1e-999999999999"));
    accepts(constant(&format!("0.{digits}")));
    accepts(constant("-9223372036854775807 - 1"));
    refuses(constant("9223372036854775807 + 1"), "size-overflow");
    refuses(constant("-(-9223372036854775807 - 1)"), "size-overflow");
    refuses(constant("abs(-9223372036854775807 - 1)"), "size-overflow");
    survive(constant("(-9223372036854775807 - 1) / -1"));
    survive(constant("(-9223372036854775807 - 1) % -1"));
    survive(constant("floordiv(-9223372036854775807 - 1, -1)"));
    survive(constant("pow(10, 1000)"));
    survive(constant("pow(0, -1)"));
    refuses(constant("1 / 0"), "bad-value");
    refuses(constant("1 % 0"), "bad-value");
    refuses("spec s, edition 99999999999999999999;", "unknown-edition");
    refuses("spec s, edition 0x1e309;", "unknown-edition");
    refuses(format!("spec s, edition {digits};"), "unknown-edition");
    refuses(constant("1_e"), "number-suffix");
    survive(constant("1e"));
    survive(constant("0x"));
    survive(constant("0x_"));
    survive(constant("1__.__e1"));
}

#[test]
fn sizes_that_overflow_are_refused() {
    let input = |dims: &str| format!("spec s; model (x: f32[{dims}]) {{ output y = x; }}");
    refuses(input("1000000000, 1000000000, 1000000000"), "size-overflow");
    refuses(input("9223372036854775807"), "size-overflow");
    refuses(input("-1"), "negative-size");
    survive(input("0, 9223372036854775807"));
    refuses(input("4294967296 * 4294967296"), "size-overflow");
    survive(input(&vec!["1"; 1_000].join(", ")));
    survive(input(&vec!["n"; 1_000].join(", ")));
    survive(input(
        &(0..1_000).map(|i| format!("n{i}, ")).collect::<String>(),
    ));
    let dims = vec!["1"; 1_000].join(", ");
    survive(format!(
        "spec s; model (x: f32[{dims}]) {{ output y = transpose(x) + x @ x; }}"
    ));
    survive(model(&format!(
        "output y = reshape(x, [{}]);",
        vec!["1"; 50_000].join(", ")
    )));
    survive(model(
        "output y = reshape(x, [9223372036854775807, 9223372036854775807]);",
    ));
    survive(model("output y = x |> tile([9223372036854775807, 2]);"));
    survive(model(
        "output y = pad(x, [[9223372036854775807, 1], [1, 1]]);",
    ));
    survive(model("output y = x[-9223372036854775807 - 1];"));
    survive(model(
        "output y = x[0..9223372036854775807 by -9223372036854775807 - 1];",
    ));
    survive(model(
        "output y = one_hot(cast(x, i32), 9223372036854775807);",
    ));
    survive(model("output y = dense(x, 9223372036854775807);"));
    survive(model("output y = dense(x, -1);"));
    survive(model("output y = dense(x, 0);"));
}

#[test]
fn polynomials_do_not_explode() {
    let squared = |rounds: usize| {
        let squares = lines(rounds, |i| format!("let p{} = p{i} * p{i};", i + 1));
        format!(
            "spec s;\nmodel (x: f32[a, b, c, d, e]) {{\nlet p0 = size_of(x, 0) + size_of(x, 1) + size_of(x, 2) + size_of(x, 3) + size_of(x, 4);\n\
             {squares}\noutput y = reshape(x, [p{rounds}]);\n}}\n"
        )
    };
    for rounds in [1, 3, 8, 40] {
        survive(squared(rounds));
    }
    let sizes: String = (0..300).map(|i| format!("n{i}, ")).collect();
    let sum = (0..300)
        .map(|i| format!("n{i}"))
        .collect::<Vec<_>>()
        .join(" + ");
    survive(format!(
        "spec s;\nfn f(x: f32[{sizes}]) {{ reshape(x, [({sum}) * ({sum}) * ({sum})]) }}\nmodel (x: f32[{sizes}]) {{ output y = f(x); }}"
    ));
    survive(
        "spec s;\nfn f(x: f32[a]) = for i in 0..60000, n = a { n * n + a };\nmodel (x: f32[a]) { output y = f(x); }",
    );
    survive(
        "spec s;\nfn f(x: f32[a]) = for i in 0..60000, n = a { floordiv(n + a, 3) * a % 7 };\nmodel (x: f32[a]) { output y = f(x); }",
    );
}

#[test]
fn hostile_equations_are_refused() {
    for equation in [
        "",
        "->",
        ",",
        ",,,,",
        "ij",
        "ij,jk",
        "ij,jk->ik->",
        "->->",
        "ii,jj->ij",
        "i j , j k -> i k",
        "...,...->...",
        "..ij->ij",
        "ij->ijk",
        "ij,jk->ii",
        "ä,ö->ü",
        "0",
        "IJ,JK->IK",
        "....",
        "-",
    ] {
        survive(model(&format!("output y = einsum(\"{equation}\", x, x);")));
        survive(model(&format!(
            "output y = einsum(\"{equation}\", [x, x]);"
        )));
    }
    for equation in [
        "i".repeat(60_000),
        ",".repeat(60_000),
        "->".repeat(30_000),
        "ä".repeat(30_000),
    ] {
        survive(model(&format!("output y = einsum(\"{equation}\", x, x);")));
        survive(model(&format!(
            "output y = einsum(\"{equation}\", [x, x]);"
        )));
        survive(model(&format!(
            "output y = einsum(\"{equation}\", [{}]);",
            "x, ".repeat(10_000)
        )));
    }
}

// ---- Files ----

fn files(count: usize, text: impl Fn(usize) -> String) -> BTreeMap<String, String> {
    (0..count).map(|i| (format!("f{i}"), text(i))).collect()
}

#[track_caller]
fn refuses_files(text: &str, files: BTreeMap<String, String>, code: &str) {
    let codes = survive_with(text.to_owned(), files, &[]);
    assert!(codes.contains(&code), "{:?}", first(&codes));
}

#[test]
fn files_that_cannot_be_loaded_are_reported() {
    let one = |text: &str| BTreeMap::from([("f0".to_owned(), text.to_owned())]);
    refuses_files("spec s; use \"missing\";", BTreeMap::new(), "use-failed");
    refuses_files("spec s; use \"\";", BTreeMap::new(), "use-failed");
    refuses_files("spec s; use \"\\0\";", BTreeMap::new(), "use-failed");
    refuses_files("spec s; use \"f0\";", one("use \"f0\";"), "use-cycle");
    let own = BTreeMap::from([("hostile".to_owned(), "const A = 1;".to_owned())]);
    refuses_files("spec s; use \"hostile\";", own, "use-cycle");
    let circle = files(50, |i| format!("use \"f{}\";", (i + 1) % 50));
    refuses_files("spec s; use \"f0\";", circle, "use-cycle");
    let all = files(60, |_| lines(60, |j| format!("use \"f{j}\";")));
    refuses_files("spec s; use \"f0\";", all, "use-cycle");
    let long = files(2_000, |i| format!("use \"f{}\"; const A{i} = 1;", i + 1));
    refuses_files("spec s; use \"f0\";", long, "spec-too-large");
    let wide = lines(2_000, |i| format!("use \"f{i}\";"));
    refuses_files(
        &format!("spec s; {wide}"),
        files(2_000, |_| String::new()),
        "spec-too-large",
    );
    let same = "use \"f0\";".repeat(50_000);
    survive_with(format!("spec s; {same}"), one("const A = 1;"), &[]);
    refuses_files("spec s; use \"f0\";", one(&"(".repeat(1 << 20)), "too-deep");
    refuses_files(
        "spec s; use \"f0\";",
        one(&" ".repeat(10 << 20)),
        "text-too-long",
    );
    let missing = lines(20_000, |i| format!("use \"m{i}\";"));
    refuses(format!("spec s; {missing}"), "use-failed");
}

// ---- Expansion ----

#[test]
fn recursion_is_refused() {
    refuses("spec s; fn f(x) = f(x); const A = f(1);", "recursion");
    refuses("spec s; fn f(x) = f(x);", "recursion");
    refuses(
        "spec s; fn f(x) = g(x); fn g(x) = f(x); const A = f(1);",
        "recursion",
    );
    refuses("spec s; const A = A;", "recursion");
    refuses(
        "spec s; const A = B; const B = C; const C = A;",
        "recursion",
    );
    refuses("spec s; fn f() = A; const A = f();", "recursion");
    refuses("spec s; fn f(x = f()) = x; const A = f();", "recursion");
    refuses(
        format!(
            "spec s; block b(x) {{ b(x) }} {}",
            &model("output y = b(x);")[7..]
        ),
        "recursion",
    );
    refuses(
        format!(
            "spec s; block b(x) {{ c(x) }} block c(x) {{ b(x) }} {}",
            &model("output y = b(x);")[7..]
        ),
        "recursion",
    );
    refuses(
        format!(
            "spec s; block b(x: f32[.., n]) {{ layer l = b(); l(x) }} {}",
            &model("output y = b(x);")[7..]
        ),
        "recursion",
    );
    refuses("spec s; schedule r(a) = r(a); const A = r(1);", "recursion");
    refuses(
        format!(
            "spec s; init i() = i(); {}",
            &model("param p: f32[4] = i(); output y = x + p;")[7..]
        ),
        "recursion",
    );
    survive(
        "spec s; optimizer o(learning_rate) { param <- o(learning_rate); } train { optimizer o(0.1); }",
    );
    survive(
        "spec s; optimizer o(learning_rate = o(1)) { param <- param; } train { optimizer o(); }",
    );
    survive("spec s; fn f(g) = g(g); const A = f(f);");
    survive("spec s; fn f(g, h) = g(h, g); fn k(g, h) = h(g, h); const A = f(k, f);");
}

#[test]
fn chains_of_definitions_are_bounded() {
    let chain = lines(10_000, |i| format!("fn f{i}(x) = f{}(x);", i + 1));
    refuses(
        format!("spec s;\n{chain}\nfn f10000(x) = x;\nconst A = f0(1);"),
        "too-deep",
    );
    let chain = lines(10_000, |i| format!("const A{i} = A{};", i + 1));
    refuses(format!("spec s;\n{chain}\nconst A10000 = 1;"), "too-deep");
    let blocks = lines(10_000, |i| format!("block b{i}(x) {{ b{}(x) }}", i + 1));
    refuses(
        format!(
            "spec s;\n{blocks}\nblock b10000(x) {{ x }}\nmodel (x: f32[1]) {{ output y = b0(x); }}"
        ),
        "too-deep",
    );
    let inits = lines(10_000, |i| format!("init i{i}() = i{}();", i + 1));
    survive(format!(
        "spec s;\n{inits}\ninit i10000() = 1.0;\nmodel (x: f32[1]) {{ param p: f32[1] = i0(); output y = x + p; }}"
    ));
    let defaults = lines(10_000, |i| format!("fn f{i}(x = f{}()) = x;", i + 1));
    refuses(
        format!("spec s;\n{defaults}\nfn f10000() = 1;\nconst A = f0();"),
        "too-deep",
    );
    let branches = lines(60, |i| {
        format!("fn f{i}(x) = f{}(x) + f{}(x);", i + 1, i + 1)
    });
    refuses(
        format!("spec s;\n{branches}\nfn f60(x) = x;\nconst A = f0(1);"),
        "spec-too-large",
    );
    let layers = lines(60, |i| {
        format!("block b{i}(x) {{ b{0}(x) + b{0}(x) }}", i + 1)
    });
    refuses(
        format!(
            "spec s;\n{layers}\nblock b60(x) {{ dense(x, 4) }}\nmodel (x: f32[4, 4]) {{ output y = b0(x); }}"
        ),
        "spec-too-large",
    );
    // Deep in expressions and in calls at once.
    let deep = nested("if true { (", "f1(x)", ") }", 49);
    let inner = nested("if true { (", "x", ") }", 49);
    survive(format!(
        "spec s;\nfn f0(x) = {deep};\nfn f1(x) = {inner};\nconst A = f0(1);"
    ));
}

#[test]
fn loops_are_bounded() {
    refuses(
        constant("for i in 0..1000000000, a = 1 { a }"),
        "loop-too-long",
    );
    refuses(
        constant("for i in -9223372036854775807..9223372036854775807, a = 1 { a }"),
        "loop-too-long",
    );
    accepts(constant("for i in 0..65536, a = 1 { a }"));
    accepts(constant("for i in 5..-5, a = 1 { a }"));
    refuses(
        constant("for i in 0..65536, a = 1 { for j in 0..65536, b = a { b } }"),
        "spec-too-large",
    );
    refuses(
        constant("for i in 0..65536 { for j in 0..65536 { yield 1; } }"),
        "spec-too-large",
    );
    refuses(
        constant("for i in 0..65536 { for j in 0..65536 { } }"),
        "spec-too-large",
    );
    refuses(
        constant("for i in 0..65536, a = 1 { for j in [].. { } }"),
        "syntax",
    );
    refuses(
        model("output y = for i in 0..65536, a = x { for j in 0..65536, b = a { b + 1 } };"),
        "spec-too-large",
    );
    survive(model(
        "for i in 0..65536 { param p: f32[4] = zeros; }\noutput y = x;",
    ));
    survive(model(
        "for i in 0..5000 { layer l = dense(4); }\noutput y = x;",
    ));
    survive(model("output y = for i in 0..5000, a = x { dense(a, 4) };"));
    survive(model("for i in 0..65536 { output y = x; }"));
}

#[test]
fn values_that_grow_are_bounded() {
    refuses(
        constant("for i in 0..100, a = [1] { a + a }"),
        "spec-too-large",
    );
    refuses(
        constant("for i in 0..65536, a = [1] { a + [i] + a }"),
        "spec-too-large",
    );
    refuses(
        constant("len(for i in 0..60, a = [1] { a + a })"),
        "spec-too-large",
    );
    refuses(constant("for i in 0..65536, a = [] { [a] }"), "too-deep");
    refuses(constant("for i in 0..65536, a = () { (a,) }"), "too-deep");
    refuses(
        constant("for i in 0..100, a = [1] { [a, a] }"),
        "spec-too-large",
    );
    refuses(
        constant("for i in 0..90, a = [1] { (a, a) } == for i in 0..90, a = [1] { (a, a) }"),
        "spec-too-large",
    );
    survive(constant("for i in 0..65536, a = [1] { a + [i] }"));
    survive(constant("for i in 0..65536 { yield [1, 2, 3]; }"));
    survive(constant(
        "for i in 0..40 { yield for j in 0..40 { yield for k in 0..4000 { yield 1; }; }; }",
    ));
    refuses(
        constant("for i in 0..90, a = 1 { for j in 0..1 { yield a; yield a; } }"),
        "spec-too-large",
    );
    survive(constant(
        "for i in 0..65536, a = 1 { if i % 2 == 0 { for j in 0..1 { yield a; } } else { (a,) } }",
    ));
    refuses(constant("\"a\" + \"b\""), "type-mismatch");
    survive(constant("for i in 0..100, a = \"ab\" { a + a }"));
    survive(model(
        "output y = for i in 0..40, a = x { concat([a, a], axis: 0) };",
    ));
    refuses(
        model("output y = for i in 0..65536, a = x { stack([a]) };"),
        "spec-too-large",
    );
    survive(model(
        "output y = for i in 0..5000, a = x { expand_dims(a, 0) };",
    ));
    survive(model(
        "output y = concat(for i in 0..65536 { yield x; }, axis: 0);",
    ));
    survive(model(
        "for i in 0..300 { let l = for j in 0..65536 { yield x; }; let y = concat(l, axis: 0); }\noutput y = x;",
    ));
    survive(model(
        "let l = for j in 0..65536 { yield x; };\nfor i in 0..65536 { let y = concat(l, axis: 0); }\noutput y = x;",
    ));
    survive(constant(
        "for j in 0..65536, l = (for i in 0..65536 { yield 1; }) { let (a, b) = (l, l[0..65536]); b }",
    ));
    survive(constant(
        "for j in 0..65536, l = (for i in 0..65536 { yield 1; }) { l[0..60000] + l[0..5536] }",
    ));
    survive(
        "spec s; fn f(l) = l == l; const L = for i in 0..65536 { yield 1; }; const A = for j in 0..65536, l = true { f(L) };",
    );
    survive(model(
        "let (a, b) = split(x, 4, axis: 9223372036854775807);\noutput y = a;",
    ));
    survive(model("let l = split(x, 65536, axis: 0);\noutput y = x;"));
    survive(model(
        "let l = split(reshape(x, [16]), 16, axis: 0);\nfor i in 0..65536 { let k = split(reshape(x, [16]), 16, axis: 0); }\noutput y = x;",
    ));
}

// ---- Overrides ----

#[test]
fn hostile_overrides_are_refused() {
    let text = "spec s; const A = 1; const B = A + 1;";
    let set =
        |name: &str, value: &str| survive_with(text.to_owned(), BTreeMap::new(), &[(name, value)]);
    assert_eq!(set("A", "2"), ["unused"]);
    let deep = "(".repeat(1 << 20);
    let long = "9".repeat(1 << 20);
    let text = format!("\"{}\"", "a".repeat(1 << 20));
    for value in [
        "",
        " ",
        ";",
        "1;",
        "1; const C = 2",
        "\0",
        "\"",
        "/*",
        "//",
        "1 // a\n",
        "1\n",
        "\n",
        "-",
        "(",
        ")",
        "[1, 2",
        "1, 2",
        "for i in 0..65536, a = [1] { a + a }",
        "f(x)",
        "model",
        "ä",
        "1 2",
        "=",
        &deep,
        &long,
        &text,
    ] {
        let codes = set("A", value);
        let fine = ["1\n", "1 // a\n"];
        assert_eq!(
            codes.iter().any(|c| *c != "unused"),
            !fine.contains(&value),
            "{value:.40}: {codes:?}"
        );
    }
    for name in ["", "C", "a b", "\0", "A = 1; const D", &deep, &text] {
        assert!(set(name, "1").contains(&"bad-override"), "{name:.40}");
    }
    let many: Vec<(&str, &str)> = vec![("A", "2"); 5_000];
    survive_with(
        "spec s; const A = 1; const B = A + 1;".to_owned(),
        BTreeMap::new(),
        &many,
    );
}
