//! State variables of compiled programs: read before the step, committed together at its end, unchanged when a run fails.

use std::collections::BTreeSet;
use std::sync::Arc;

use trainspec_codegen::Options;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable};
use trainspec_ir::build::Builder;
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::plan::{Allocation, plan};
use trainspec_ir::{DType, Tensor, interp, passes};

fn vector(values: &[f32]) -> Tensor {
    Tensor::new(&[values.len()], values.to_vec())
}

fn executable(graph: Graph) -> Executable {
    let graph = passes::run(graph, &Default::default());
    let compiled = CompiledProgram::compile(plan(fuse(&graph, true)), &Options::default());
    Executable::new(compiled.unwrap(), Arc::new(Pool::exactly(2)))
}

#[test]
fn writes_see_the_state_before_the_step() {
    let ty = Type::new(DType::F32, &[2]);
    let b = Builder::new("swap");
    let (x, y, z) = (b.read("x", &ty), b.read("y", &ty), b.read("z", &ty));
    b.write("x", y);
    b.write("y", x);
    b.write("z", z + x);
    b.result("old z", z);
    let mut program = executable(b.finish());
    let mut state = [
        vector(&[1.0, 2.0]),
        vector(&[3.0, 4.0]),
        vector(&[5.0, 6.0]),
    ];
    let results = program.run(&[], &mut state, &[0, 1, 2]).unwrap();
    assert_eq!(results[0].1, vector(&[5.0, 6.0]));
    assert_eq!(
        state,
        [
            vector(&[3.0, 4.0]),
            vector(&[1.0, 2.0]),
            vector(&[6.0, 8.0])
        ]
    );
}

#[test]
fn a_failed_run_leaves_the_state_as_it_was() {
    let ty = Type::new(DType::F32, &[2]);
    let b = Builder::new("fails");
    let index = b.input("index", &Type::new(DType::I64, &[1]));
    let (x, y) = (b.read("x", &ty), b.read("y", &ty));
    let next = x + 1.0;
    b.write("x", next);
    // What fails comes after the new value of `x` is known, and reads it.
    b.write("y", y + next.take(index).broadcast(&[2]));
    let graph = b.finish();
    let mut program = executable(graph.clone());
    let before = [vector(&[1.0, 2.0]), vector(&[3.0, 4.0])];
    let mut state = before.clone();
    let bad = Tensor::new(&[1], vec![7_i64]);
    let error = program
        .run(&[(&bad).into()], &mut state, &[0, 1])
        .unwrap_err();
    assert_eq!(error.message, "index 7 is out of range 0..2");
    assert_eq!(state, before);

    let good = Tensor::new(&[1], vec![1_i64]);
    program.run(&[(&good).into()], &mut state, &[0, 1]).unwrap();
    assert_eq!(state, [vector(&[2.0, 3.0]), vector(&[6.0, 7.0])]);
    let inputs = [("index".to_owned(), good)].into();
    let expected = interp::run(&graph, &inputs, &before).unwrap().writes;
    assert!(expected.iter().all(|(i, value)| state[*i] == *value));
}

#[test]
fn wrong_state_is_refused() {
    let b = Builder::new("g");
    let x = b.read("x", &Type::new(DType::F32, &[2]));
    b.write("x", x + x);
    let mut program = executable(b.finish());
    let wrong = program.run(&[], &mut [vector(&[1.0])], &[0]).unwrap_err();
    assert_eq!(wrong.message, "`x` must be f32[2], but is f32[1]");
    let missing = program.run(&[], &mut [], &[0]).unwrap_err();
    assert_eq!(missing.message, "the value of `x` is missing");
}

#[test]
fn updates_from_other_variables_see_the_old_values() {
    for elements in [1, 8, 9, 100, 5000] {
        let ty = Type::new(DType::F32, &[elements]);
        let b = Builder::new("cross");
        let (x, y, z) = (b.read("x", &ty), b.read("y", &ty), b.read("z", &ty));
        b.write("x", y * 2.0 + z);
        b.write("y", z - 1.0);
        b.write("z", x * 3.0);
        let mut program = executable(b.finish());
        let numbers = |k: usize| (0..elements).map(move |i| (i % 50 + k) as f32);
        let mut state = [0, 100, 200].map(|k| vector(&numbers(k).collect::<Vec<_>>()));
        program.run(&[], &mut state, &[0, 1, 2]).unwrap();
        let expected = [
            numbers(100)
                .zip(numbers(200))
                .map(|(y, z)| y * 2.0 + z)
                .collect::<Vec<_>>(),
            numbers(200).map(|z| z - 1.0).collect(),
            numbers(0).map(|x| x * 3.0).collect(),
        ];
        assert_eq!(state, expected.map(|values| vector(&values)), "{elements}");
    }
}

/// In-place reuse: a result that does not depend on a buffer aliases it, while another result of the same kernel still reads it.
#[test]
fn reusing_a_buffer_does_not_overwrite_unread_elements() {
    for elements in [1, 8, 9, 100, 5000] {
        let ty = Type::new(DType::F32, &[elements]);
        let b = Builder::new("reuse");
        let x = b.input("x", &ty);
        let places = b.input("places", &Type::new(DType::I64, &[elements]));
        // The output of a routine, whose last use is the loop below.
        let taken = x.take(places);
        b.result("first", x * 2.0);
        b.result("second", taken + x);
        let mut program = executable(b.finish());
        let shared = {
            let allocations = &program.program().allocations;
            let arena = allocations
                .iter()
                .filter(|a| matches!(a, Allocation::Arena(_)));
            let arena: Vec<_> = arena.map(|a| format!("{a:?}")).collect();
            arena.len() > arena.iter().collect::<BTreeSet<_>>().len()
        };
        assert!(shared, "a result aliases the output of take");
        let numbers: Vec<f32> = (0..elements).map(|i| i as f32 + 1.0).collect();
        let backwards: Vec<i64> = (0..elements as i64).rev().collect();
        let places = Tensor::new(&[elements], backwards);
        let numbers_fed = vector(&numbers);
        let feeds = [(&numbers_fed).into(), (&places).into()];
        let found = program.run(&feeds, &mut [], &[]);
        let found = found.unwrap();
        let doubled: Vec<f32> = numbers.iter().map(|x| x * 2.0).collect();
        assert_eq!(found[0].1, vector(&doubled), "{elements}");
        let sum = vec![elements as f32 + 1.0; elements];
        assert_eq!(found[1].1, vector(&sum), "{elements}");
    }
}
