//! No page of memory can be written and executed at once, while programs are compiled, exist and run.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use trainspec_codegen::Options;
use trainspec_codegen::exec::Executable;
use trainspec_codegen::exec::pool::Pool;
use trainspec_ir::build::Builder;
use trainspec_ir::graph::{Graph, Type};
use trainspec_ir::{DType, Tensor, passes};

/// A step that has loops, a product and state.
fn step() -> Graph {
    let b = Builder::new("step");
    let x = b.input("x", &Type::new(DType::F32, &[64, 31]));
    let w = b.read("w", &Type::new(DType::F32, &[31, 9]));
    let loss = x.matmul(w).tanh().square().mean(&[0, 1]);
    let slope = b
        .gradients(&[loss], &[w])
        .remove(0)
        .expect("it depends on w");
    b.write("w", w - 0.1 * slope.dense());
    b.result("loss", loss);
    passes::run(b.finish(), &Default::default())
}

/// What `/proc/self/maps` says: how many pieces of memory hold code that came from no file.
fn look() -> Result<usize, String> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|e| e.to_string())?;
    let mut made = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let rights = words.nth(1).ok_or("a line without rights")?;
        if rights.contains('w') && rights.contains('x') {
            return Err(format!("it can be written and executed: {line}"));
        }
        // Offset, device and inode come before the name.
        made += usize::from(rights.contains('x') && words.nth(3).is_none());
    }
    Ok(made)
}

#[test]
fn no_page_is_writable_and_executable() {
    let before = look().unwrap();
    let stop = AtomicBool::new(false);
    let (compiled, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pool = Arc::new(Pool::exactly(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let graph = step();
            let x = Tensor::new(&[64, 31], vec![0.5_f32; 64 * 31]);
            let mut kept = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let program = Executable::new(&graph, pool.clone(), &Options::default());
                let mut program = program.expect("it compiles");
                compiled.fetch_add(1, Ordering::Relaxed);
                let mut state = [Tensor::new(&[31, 9], vec![0.25_f32; 31 * 9])];
                for _ in 0..20 {
                    program.run(&[&x], &mut state, &[0]).expect("it runs");
                    runs.fetch_add(1, Ordering::Relaxed);
                }
                // Some stay, some go.
                kept.push(program);
                if kept.len() > 4 {
                    kept.clear();
                }
            }
        });
        let mut most = 0;
        let mut outcome = Ok(());
        // Looks between, while and after programs are made.
        while outcome.is_ok() && (compiled.load(Ordering::Relaxed) < 12) {
            match look() {
                Ok(made) => most = most.max(made),
                Err(wrong) => outcome = Err(wrong),
            }
        }
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap();
        assert!(
            most > before,
            "the code of programs was seen: {most} pieces, {before} before"
        );
    });
    assert!(runs.load(Ordering::Relaxed) > 100);
    look().unwrap();
}
