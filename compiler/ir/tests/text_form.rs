//! The textual form of graphs: print and parse round-trip, and parse errors have a line and column.

use half::{bf16, f16};
use trainspec_ir::build::{Builder, Convolution, Loop};
use trainspec_ir::graph::{
    Graph, Node, NodeKind, Scan, State, StateId, Type, ValueId, Write, verify,
};
use trainspec_ir::ops::{PRIMS, find_prim};
use trainspec_ir::text::{ParseError, parse};
use trainspec_ir::{DType, Span, Tensor};

/// The text of a graph, after it was parsed and printed again.
fn round_trip(graph: &Graph) -> String {
    let text = graph.to_string();
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again.to_string(), text);
    assert_eq!(again.size(), graph.size());
    text
}

fn refused(text: &str) -> ParseError {
    match parse(text) {
        Ok(graph) => panic!("accepted: {graph}"),
        Err(error) => error,
    }
}

/// The message, line and column for a graph of these lines, the first being line 2.
fn refused_lines(lines: &str) -> (String, usize, usize) {
    let error = refused(&format!("graph \"g\" {{\n{lines}\n}}\n"));
    (error.message, error.line, error.column)
}

#[test]
fn every_kind_of_node_round_trips() {
    let b = Builder::new("step \"one\"\n");
    let x = b.input("x", &Type::new(DType::F32, &[3, 2]));
    let w = b.read("dense/kernel", &Type::new(DType::F32, &[2]));
    let half = b.constant(Tensor::new(&[2], vec![0.5_f32, -1.0]));
    let start = w * half;
    let walk = Loop {
        length: 3,
        reverse: true,
        captures: vec![w],
        starts: vec![start],
        over: vec![x],
    };
    let (carried, yielded) = b.scan(walk, |round| {
        let next = round.carries[0] * round.captures[0] + round.elements[0];
        (vec![next], vec![next.cumsum(0, false, true)])
    });
    b.result("h", carried[0]);
    b.result("all", yielded[0]);
    b.write("dense/kernel", carried[0]);
    let text = round_trip(&b.finish());
    assert_eq!(
        text,
        r#"graph "step \"one\"\n" {
  state "dense/kernel" : f32[2]
  %0 = input "x" : f32[3, 2]
  %1 = read "dense/kernel" : f32[2]
  %2 = const [0.5, -1.0] : f32[2]
  %3 = multiply(%1, %2) : f32[2]
  %4, %5 = scan 3 reverse captures [%1] carries [%3] over [%0] {
    %0 = input "capture 0" : f32[2]
    %1 = input "carry 0" : f32[2]
    %2 = input "element 0" : f32[2]
    %3 = input "position" : i64
    %4 = multiply(%1, %0) : f32[2]
    %5 = add(%4, %2) : f32[2]
    %6 = cumsum(%5; axis: 0, reverse: true) : f32[2]
    return "next 0" = %5
    return "yield 0" = %6
  } : f32[2], f32[3, 2]
  write "dense/kernel" <- %4
  return "h" = %4
  return "all" = %5
}
"#
    );
}

#[test]
fn every_kind_of_attribute_round_trips() {
    let b = Builder::new("attributes");
    let n = b.iota(5);
    let n = n.bounded(-3, 7, "the \u{1}\"position\"\\ \n of 'ü' 漢");
    let x = n.cast(DType::F64).reshape(&[1, 5, 1, 1]);
    let filters = b.full(&Type::new(DType::F64, &[2, 1, 1, 2]), 0.5);
    let window = Convolution {
        strides: [1, 1],
        pads: [(1, 0), (0, 3)],
        dilations: [2, 1],
        groups: 1,
    };
    b.result("y", x.conv2d(filters, &window));
    b.result("total", x.sum(&[]));
    b.result("sums", x.cumsum(1, true, false));
    let text = round_trip(&b.finish());
    for part in [
        "iota(n: 5) : i64[5]",
        r#"low: -3, high: 7, what: "the \u{1}\"position\"\\ \n of 'ü' 漢")"#,
        "; dtype: f64)",
        "; strides: [1, 1], pads: [(1, 0), (0, 3)], dilations: [2, 1], groups: 1)",
        "; axes: []) : f64[1, 5, 1, 1]",
        "cumsum(%3; axis: 1, exclusive: true) :",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn constants_of_every_type_round_trip() {
    fn exact(tensor: Tensor, expected: &str) {
        let b = Builder::new("constant");
        b.result("y", b.constant(tensor.clone()));
        let text = round_trip(&b.finish());
        assert_eq!(text.lines().nth(1), Some(&*format!("  %0 = {expected}")));
        let again = parse(&text).unwrap();
        let NodeKind::Const(found) = &again.nodes[0].kind else {
            panic!("no constant: {text}");
        };
        // Unlike `==`, this distinguishes -0 from 0 and equates NaN.
        assert_eq!(format!("{found:?}"), format!("{tensor:?}"));
    }
    let floats = vec![1.5, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let expected = "const [1.5, -0.0, nan, inf, -inf] : f32[5]";
    exact(Tensor::new(&[5], floats), expected);
    exact(
        Tensor::new(&[3], vec![f32::MAX, f32::MIN_POSITIVE / 4.0, 0.1]),
        "const [3.4028235e38, 2.938736e-39, 0.1] : f32[3]",
    );
    exact(
        Tensor::new(&[1, 2], vec![f64::MIN_POSITIVE, 0.1 + 0.2]),
        "const [2.2250738585072014e-308, 0.30000000000000004] : f64[1, 2]",
    );
    let f16s = [0.1, -65504.0, f64::NAN, f64::NEG_INFINITY, 6e-8].map(f16::from_f64);
    exact(
        Tensor::new(&[5], f16s.to_vec()),
        "const [0.0999755859375, -65504.0, nan, -inf, 5.960464477539063e-8] : f16[5]",
    );
    exact(
        Tensor::new(&[2], vec![bf16::from_f64(0.1), bf16::from_f64(-0.0)]),
        "const [0.10009765625, -0.0] : bf16[2]",
    );
    exact(
        Tensor::new(&[2], vec![i8::MIN, i8::MAX]),
        "const [-128, 127] : i8[2]",
    );
    exact(Tensor::new(&[1], vec![i16::MIN]), "const [-32768] : i16[1]");
    exact(Tensor::scalar(-7_i32), "const -7 : i32");
    exact(Tensor::scalar(i64::MIN), "const -9223372036854775808 : i64");
    exact(Tensor::scalar(255_u8), "const 255 : u8");
    exact(
        Tensor::new(&[2], vec![true, false]),
        "const [true, false] : bool[2]",
    );
    exact(Tensor::scalar(f64::NAN), "const nan : f64");
    exact(Tensor::new::<f32>(&[0], vec![]), "const [] : f32[0]");
    exact(Tensor::new::<i64>(&[3, 0], vec![]), "const [] : i64[3, 0]");
    let thousand = Tensor::new(&[10, 100], vec![0.5_f32; 1000]);
    exact(thousand, "const splat 0.5 : f32[10, 100]");
    let zeros = Tensor::new(&[2], vec![0.0_f32, -0.0]);
    exact(zeros, "const [0.0, -0.0] : f32[2]");
    let nans = Tensor::new(&[2], vec![f64::NAN; 2]);
    exact(nans, "const splat nan : f64[2]");
}

#[test]
fn values_are_numbered_in_the_order_in_which_they_are_made() {
    let text = "graph \"g\"{%7=input\"x\":f32 // seven\n %b,%300=scan 2 captures[]carries[%7]over[]{\
        %9=input \"c\":f32 %1=input\"position\":i64 return\"\"=%9 return \"\"=%1}:f32,i64[2]\
        %1=add(%b,%7):f32 return\"y\"=%1 return \"n\"=%300}// end";
    let graph = parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        graph.to_string(),
        r#"graph "g" {
  %0 = input "x" : f32
  %1, %2 = scan 2 captures [] carries [%0] over [] {
    %0 = input "c" : f32
    %1 = input "position" : i64
    return "" = %0
    return "" = %1
  } : f32, i64[2]
  %3 = add(%1, %0) : f32
  return "y" = %3
  return "n" = %2
}
"#
    );
    assert_eq!(round_trip(&graph), graph.to_string());
}

#[test]
fn printing_renumbers_values() {
    let ty = Type::scalar(DType::F32);
    let node = |kind: NodeKind, operands: &[u32], result: u32| Node {
        kind,
        operands: operands.iter().map(|v| ValueId(*v)).collect(),
        results: vec![ValueId(result)],
        span: Span::default(),
    };
    let graph = Graph {
        name: "g".to_owned(),
        state: vec![State {
            name: "w".to_owned(),
            ty: ty.clone(),
        }],
        types: vec![ty; 4],
        nodes: vec![
            node(NodeKind::Input("x".to_owned()), &[], 3),
            node(
                NodeKind::Prim(find_prim("exp").unwrap(), [].into()),
                &[3],
                1,
            ),
        ],
        writes: vec![Write {
            state: StateId(0),
            value: ValueId(1),
            span: Span::default(),
        }],
        results: vec![("y".to_owned(), ValueId(3))],
    };
    verify(&graph).unwrap();
    let text = round_trip(&graph);
    let end = "  write \"w\" <- %1\n  return \"y\" = %0\n}\n";
    assert!(text.contains("  %1 = exp(%0) : f32\n"), "{text}");
    assert!(text.ends_with(end), "{text}");

    let mut broken = graph;
    broken.nodes[1].operands[0] = ValueId(2);
    assert!(broken.to_string().contains("%1 = exp(%?2) : f32"));
}

#[test]
fn a_loop_without_results_round_trips() {
    let body = Builder::new("");
    body.input("position", &Type::scalar(DType::I64));
    let scan = Scan {
        length: 2,
        reverse: false,
        captures: 0,
        carries: 0,
        body: body.finish(),
    };
    let graph = Graph {
        nodes: vec![Node {
            kind: NodeKind::Scan(Box::new(scan)),
            operands: vec![],
            results: vec![],
            span: Span::default(),
        }],
        ..Graph::default()
    };
    let text = round_trip(&graph);
    let begin = "graph \"\" {\n  scan 2 captures [] carries [] over [] {\n    %0 = input";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn every_primitive_is_found_by_its_name() {
    for prim in PRIMS {
        assert_eq!(find_prim(prim.name).map(|p| p.name), Some(prim.name));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(prim.name.chars().all(plain), "{}", prim.name);
        for word in ["input", "const", "read", "scan", "state", "write", "return"] {
            assert_ne!(prim.name, word);
        }
    }
}

#[test]
fn parse_errors_have_a_line_and_column() {
    let x = "%0 = input \"x\" : f32[2]\n";
    for (lines, message, line, column) in [
        ("%0 = foo() : f32", "there is no primitive `foo`", 2, 6),
        (
            "%0 = input x : f32",
            "expected the name of the input in quotes, found `x`",
            2,
            12,
        ),
        (
            "%0 = input \"x\"\n",
            "expected `:` and a type, found `}`",
            4,
            1,
        ),
        ("%0 = input \"x\" : f33", "`f33` is no element type", 2, 18),
        (
            "%0 = input \"x\" : string",
            "a graph does not compute with strings",
            2,
            18,
        ),
        (
            "%0 = input \"x\" : f32[2, -1]",
            "a size cannot be negative: -1",
            2,
            25,
        ),
        ("%0 = input \"x\" : f32[1.5]", "`1.5` is no size", 2, 22),
        (
            "%0 = input \"x\" : f32[]",
            "expected a size, found `]`",
            2,
            22,
        ),
        (
            "%0 = input \"x\" : f32[2000000, 2000000]",
            "there are more elements than a tensor may have (2^40)",
            2,
            18,
        ),
        (
            "%0 = input \"x\" : f32[0, 99999999999999999999]",
            "`99999999999999999999` is no size",
            2,
            25,
        ),
        (
            "%0, %1 = input \"x\" : f32",
            "expected `,` and a type for each value, found `}`",
            3,
            1,
        ),
        (
            "%0, %1 = input \"x\" : f32, f32",
            "an input, a constant or a read has no operands and one result",
            2,
            1,
        ),
        (
            "%0 = input \"x : f32",
            "the quotes are not closed on this line",
            2,
            12,
        ),
        ("%0 = input \"ü\\q\" : f32", "this is no escape", 2, 14),
        ("%0 = input \"\\u{d800}\" : f32", "this is no escape", 2, 13),
        (
            "% 0 = input \"x\" : f32",
            "expected a value such as `%0`, found `%`",
            2,
            1,
        ),
        ("%0 = read \"w\" : f32", "there is no state `w`", 2, 11),
        (
            "return \"y\" = %0",
            "there is no value %0 before this",
            2,
            14,
        ),
        (
            "return \"y\" = 0",
            "expected a value such as `%0`, found `0`",
            2,
            14,
        ),
        (
            "hello",
            "expected `state`, a value, `write`, `return` or `}`, found `hello`",
            2,
            1,
        ),
        (
            "%0 = const 1 : i64\nstate \"w\" : f32",
            "expected a value, `write`, `return` or `}`, found `state`",
            3,
            1,
        ),
        (
            "state \"w\" : f32\nstate \"w\" : f32",
            "there are two pieces of state `w`",
            3,
            7,
        ),
        (
            "state \"w\" : f32[2]\n%0 = const 1.0 : f32\nwrite \"w\" <- %0",
            "`w` is f32[2], but is given f32",
            4,
            14,
        ),
        (
            "state \"w\" : f32\n%0 = const 1.0 : f32\nwrite \"w\" <- %0\nwrite \"w\" <- %0",
            "`w` is written twice",
            5,
            7,
        ),
        (
            "%0 = const 1 : i64\nwrite \"w\" <- %0",
            "there is no state `w`",
            3,
            7,
        ),
        (
            "state \"w\" : f32\n%0 = read \"w\" : f64",
            "the value is f32, but the result f64",
            3,
            1,
        ),
        (
            "%0 = const x : f32",
            "expected a number or a bool, found `x`",
            2,
            12,
        ),
        (
            "%0 = const \"x\" : f32",
            "expected a number or a bool, found `\\\"`",
            2,
            12,
        ),
        ("%0 = const 1e39 : f32", "`1e39` is no f32", 2, 12),
        ("%0 = const 65520.0 : f16", "`65520.0` is no f16", 2, 12),
        ("%0 = const [1, 2.0] : i32[2]", "`2.0` is no i32", 2, 16),
        ("%0 = const -1 : u8", "`-1` is no u8", 2, 12),
        ("%0 = const 128 : i8", "`128` is no i8", 2, 12),
        ("%0 = const 1 : bool", "`1` is no bool", 2, 12),
        ("%0 = const inf : i32", "`inf` is no i32", 2, 12),
        ("%0 = const 1x : i32", "`1x` is no i32", 2, 12),
        (
            "%0 = const [1, 2] : i32[3]",
            "i32[3] has 3 elements, but here are 2",
            2,
            12,
        ),
        (
            "%0 = const 1 : i32[3]",
            "i32[3] needs `[`…`]` with all elements, or `splat`",
            2,
            12,
        ),
        (
            "%0 = const [1] : i32",
            "i32 has no dimensions, so its element stands alone",
            2,
            12,
        ),
        (
            "%0 = const [1, ] : i32[1]",
            "expected a number or a bool, found `]`",
            2,
            16,
        ),
        (
            "%0 = const splat 0 : i8[16777216]\n%1 = const splat 0 : i8",
            "there are too many elements in `splat`s",
            3,
            12,
        ),
        (
            "%0 = const splat 0.0 : f32[1099511627776]",
            "there are too many elements in `splat`s",
            2,
            12,
        ),
        ("%0 = iota() : i64[3]", "`iota` needs `n`", 2, 6),
        (
            "%0 = iota(n: [3]) : i64[3]",
            "expected a size, found `[`",
            2,
            14,
        ),
        (
            "%0 = iota(n: 3, n: 3) : i64[3]",
            "`n` is given twice",
            2,
            17,
        ),
        (
            "%0 = iota(m: 3) : i64[3]",
            "`iota` has no attribute `m`, but n",
            2,
            11,
        ),
        (
            "%0 = iota(n: 3, ) : i64[3]",
            "expected an attribute, found `)`",
            2,
            17,
        ),
        (
            "%0 = iota(n: 3) : i64[4]",
            "`iota` gives i64[3], not i64[4]",
            2,
            1,
        ),
        (
            "%0 = iota(n: -3) : i64[3]",
            "a size cannot be negative: -3",
            2,
            14,
        ),
        (
            "scan -1 captures [] carries [] over [] {}",
            "the number of iterations cannot be negative: -1",
            2,
            6,
        ),
        (
            "scan 1 carries [] over [] {}",
            "expected `captures`, found `carries`",
            2,
            8,
        ),
        (
            "%0 = scan 1 captures [] carries [] over [] {} : f32",
            "a loop body must begin with its 1 inputs",
            2,
            1,
        ),
        (
            "%0 = const 1 : i64 }",
            "expected the end of the text, found `}`",
            3,
            1,
        ),
    ] {
        let found = refused_lines(lines);
        assert_eq!(found, (message.to_owned(), line, column), "{lines}");
    }
    for (lines, message, column) in [
        ("%0 = const 1 : i64", "%0 is defined twice", 1),
        (
            "%1 = add(%0, %2) : f32[2]",
            "there is no value %2 before this",
            14,
        ),
        (
            "%1 = add(%0, %1) : f32[2]",
            "there is no value %1 before this",
            14,
        ),
        (
            "%1 = add(%0; x: 1) : f32[2]",
            "`add` has no attribute `x`, but none at all",
            14,
        ),
        (
            "%1 = add(%0; ) : f32[2]",
            "expected an attribute, found `)`",
            14,
        ),
        ("%1 = add(%0 %0) : f32[2]", "expected `)`, found `%`", 13),
        ("%1 = add %0 : f32[2]", "expected `(`, found `%`", 10),
        ("%1 = exp(%0) : f32[3]", "`exp` gives f32[2], not f32[3]", 1),
        (
            "%1 = cumsum(%0; axis: 0, reverse: 1) : f32[2]",
            "expected `true` or `false`, found `1`",
            35,
        ),
        (
            "%1 = cast(%0; dtype: f33) : f32[2]",
            "`f33` is no element type",
            22,
        ),
        (
            "%1 = reduce_sum(%0; axes: 0) : f32",
            "expected `[`, found `0`",
            27,
        ),
        (
            "%1 = reduce_sum(%0; axes: [0) : f32",
            "expected `]`, found `)`",
            29,
        ),
    ] {
        let found = refused_lines(&format!("{x}{lines}"));
        assert_eq!(found, (message.to_owned(), 3, column), "{lines}");
    }
}

#[test]
fn parse_errors_in_a_loop_body_have_a_line_and_column() {
    let round = "%0 = input \"x\" : f32\n\
        %1 = scan 2 captures [] carries [%0] over [] {\n\
          %0 = input \"carry\" : f32\n\
          %1 = input \"position\" : i64\n\
          %2 = exp(%0) : f64\n\
          return \"\" = %0\n\
        } : f32";
    let message = "`exp` gives f32, not f64".to_owned();
    assert_eq!(refused_lines(round), (message, 6, 1));
    let outside = round.replace("exp(%0) : f64", "exp(%x) : f32");
    let message = "there is no value %x before this".to_owned();
    assert_eq!(refused_lines(&outside), (message, 6, 10));
    let wrong = round.replace("f64", "f32").replace("} : f32", "} : f64");
    let message = "the loop gives f32, not f64".to_owned();
    assert_eq!(refused_lines(&wrong), (message, 3, 1));
}

#[test]
fn loop_nesting_has_a_maximum_depth() {
    let nested = |depth: usize| {
        let mut lines = String::new();
        for _ in 0..depth {
            lines += "%p = input \"position\" : i64\nscan 1 captures [] carries [] over [] {\n";
        }
        lines += "%p = input \"position\" : i64\n";
        lines += &"}\n".repeat(depth);
        format!("graph \"deep\" {{\n{lines}}}\n")
    };
    let graph = parse(&nested(64)).unwrap_or_else(|e| panic!("{e}"));
    round_trip(&graph);
    let error = refused(&nested(65));
    assert_eq!(error.message, "loops are nested more than 64 deep");
    assert_eq!(refused(&nested(100_000)).message, error.message);
}

#[test]
fn no_prefix_of_a_graph_parses() {
    let b = Builder::new("g");
    let x = b.input("x", &Type::new(DType::F32, &[3]));
    let constant = b.constant(Tensor::new(&[3], vec![1.5_f32, f32::NAN, -2e-9]));
    let walk = Loop {
        length: 3,
        starts: vec![x],
        over: vec![constant],
        ..Loop::default()
    };
    let (carried, _) = b.scan(walk, |r| (vec![r.carries[0] * r.elements[0]], vec![]));
    b.write("w \"é\"", carried[0]);
    b.result("y", carried[0].cumsum(0, true, true));
    let text = round_trip(&b.finish());
    let source = text.trim_end();
    for (end, _) in source.char_indices() {
        let error = refused(&source[..end]);
        assert!(error.line <= text.lines().count() + 1, "{error}");
    }
    // Nor does any other character make the parser panic.
    for (at, _) in source.char_indices() {
        for other in ["", "%", "\"", "-", "{", "9", "é", "\\", "\n"] {
            let mut changed = source.to_owned();
            changed.replace_range(
                at..at + source[at..].chars().next().map_or(0, char::len_utf8),
                other,
            );
            if let Ok(graph) = parse(&changed) {
                round_trip(&graph);
            }
        }
    }
}
