//! W^X (write xor execute): no page is writable and executable at once while programs are compiled, live and run.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
    let before = executable_mappings().unwrap();
    let stop = AtomicBool::new(false);
    let (compiled, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pool = Arc::new(Pool::exactly(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let graph = step();
            let x = Tensor::new(&[64, 31], vec![0.5_f32; 64 * 31]);
            let mut programs = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let code = CompiledProgram::compile(plan(fuse(&graph, true)), &Options::default());
                let mut program = Executable::new(code.expect("it compiles"), pool.clone());
                compiled.fetch_add(1, Ordering::Relaxed);
                let mut state = [Tensor::new(&[31, 9], vec![0.25_f32; 31 * 9])];
                for _ in 0..20 {
                    program
                        .run(&[(&x).into()], &mut state, &[0])
                        .expect("it runs");
                    runs.fetch_add(1, Ordering::Relaxed);
                }
                // Some programs live on, some are dropped.
                programs.push(program);
                if programs.len() > 4 {
                    programs.clear();
                }
            }
        });
        let mut max_mappings = 0;
        let mut outcome = Ok(());
        // Checks before, while and after programs are compiled.
        while outcome.is_ok() && (compiled.load(Ordering::Relaxed) < 12) {
            match executable_mappings() {
                Ok(mappings) => max_mappings = max_mappings.max(mappings),
                Err(error) => outcome = Err(error),
            }
        }
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap();
        assert!(
            max_mappings > before,
            "the code of programs was seen: {max_mappings} mappings, {before} before"
        );
    });
    assert!(runs.load(Ordering::Relaxed) > 100);
    executable_mappings().unwrap();
}
