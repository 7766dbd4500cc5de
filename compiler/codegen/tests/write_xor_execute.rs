//! W^X (write xor execute): no page is writable and executable at once, before and after programs are compiled, run and dropped. What pages
//! are while code is written to them is tested beside `exec::code`.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use trainspec_codegen::Options;
use trainspec_codegen::exec::pool::Pool;
use trainspec_codegen::exec::{CompiledProgram, Executable};
use trainspec_ir::build::Builder;
use trainspec_ir::fuse::fuse;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::plan::plan;
use trainspec_ir::{DType, Tensor, passes};

/// A training step with loops, a matrix product and state.
fn step() -> Graph {
    let b = Builder::new("step");
    let x = b.input("x", &Type::new(DType::F32, &[64, 31]));
    let w = b.read("w", &Type::new(DType::F32, &[31, 9]));
    let loss = x.matmul(w).tanh().square().mean(&[0, 1]);
    let gradient = b
        .gradients(&[loss], &[w])
        .remove(0)
        .expect("it depends on w");
    b.write("w", w - 0.1 * gradient.dense());
    b.result("loss", loss);
    passes::run(b.finish(), &Default::default())
}

/// The number of anonymous executable mappings in `/proc/self/maps`; an error if any mapping is writable and executable.
fn executable_mappings() -> Result<usize, String> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|e| e.to_string())?;
    let mut mappings = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let permissions = words.nth(1).ok_or("a line without permissions")?;
        if permissions.contains('w') && permissions.contains('x') {
            return Err(format!("a mapping is writable and executable: {line}"));
        }
        // Offset, device and inode come before the name.
        mappings += usize::from(permissions.contains('x') && words.nth(3).is_none());
    }
    Ok(mappings)
}

#[test]
fn no_page_is_writable_and_executable() {
    executable_mappings().unwrap();
    let (graph, pool) = (step(), Arc::new(Pool::exactly(2)));
    let x = Tensor::new(&[64, 31], vec![0.5_f32; 64 * 31]);
    let mut programs = Vec::new();
    for _ in 0..4 {
        let compiled = CompiledProgram::compile(plan(fuse(&graph, true)), &Options::default());
        let compiled = compiled.expect("it compiles");
        assert!(executable_mappings().unwrap() > 0, "its code is there");
        let mut program = Executable::new(compiled, pool.clone());
        let mut state = [Tensor::new(&[31, 9], vec![0.25_f32; 31 * 9])];
        for _ in 0..5 {
            let run = program.run(&[(&x).into()], &mut state, &[0]);
            run.expect("it runs");
        }
        assert!(executable_mappings().unwrap() > 0, "its code is there");
        // Some programs live on, some are dropped.
        programs.push(program);
        if programs.len() == 2 {
            programs.clear();
            executable_mappings().unwrap();
        }
    }
}
