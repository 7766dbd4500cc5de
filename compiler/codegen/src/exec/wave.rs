//! Waves: independent loops that run at once.

use trainspec_ir::kernel::KernelKind;
use trainspec_ir::plan::Program;

use crate::exec::compiled_program::Step;
use crate::exec::loop_nest::LoopNest;

/// A wave: independent loops that run at once.
#[derive(Debug)]
pub(super) struct Wave {
    /// The function of each kernel, and its loop nest.
    pub(super) loops: Vec<(usize, LoopNest)>,
    /// The index of the first task of each (prefix sums), and the number of tasks.
    pub(super) tasks: Vec<usize>,
    /// Where the addresses of each begin in the table.
    pub(super) tables: Vec<usize>,
    /// Whether all of them together are less work than to wake another thread.
    pub(super) is_serial: bool,
}

/// The least elements of a wave that is run on several threads.
const MIN_PARALLEL_ELEMENTS: usize = 1 << 11;

impl Wave {
    /// The wave that begins with a kernel, if it has several kernels.
    pub(super) fn of(program: &Program, steps: &[Step], first: usize) -> Option<Wave> {
        let waves = &program.waves;
        if first > 0 && waves[first - 1] == waves[first] {
            return None;
        }
        let kernels = waves[first..]
            .iter()
            .take_while(|w| **w == waves[first])
            .count();
        if kernels == 1 {
            return None;
        }
        let (mut loops, mut tasks, mut tables) = (Vec::new(), vec![0], vec![0]);
        let mut elements = 0_usize;
        let all = program.kernels.kernels[first..].iter().zip(&steps[first..]);
        for (kernel, step) in all.take(kernels) {
            let (Step::Map { entry, nest }, KernelKind::Map(map)) = (step, &kernel.kind) else {
                unreachable!("loops alone share a wave");
            };
            let count = match map.shape.contains(&0) {
                true => 0,
                false => nest.task_count(),
            };
            elements = elements.saturating_add(map.shape.iter().product());
            loops.push((*entry, nest.clone()));
            tasks.push(tasks[tasks.len() - 1] + count);
            tables.push(tables[tables.len() - 1] + map.loads.len() + map.stores.len());
        }
        Some(Wave {
            loops,
            tasks,
            tables,
            is_serial: elements < MIN_PARALLEL_ELEMENTS,
        })
    }
}
