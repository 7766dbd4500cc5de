//! Lowering of a fused loop to Cranelift IR (CLIF).
//!
//! The function takes a table of pointers (the loads, then the stores), and the range of rows to do. A row is the innermost dimension
//! that is left after adjacent contiguous dimensions are collapsed; a loop with one dimension does a range of its elements.

mod body;
pub(crate) mod prims;
mod space;

pub use space::{Space, Strides};

use cranelift::codegen::ir::{Function, UserFuncName};
use cranelift::prelude::*;
use trainspec_ir::DType;
use trainspec_ir::kernel::{InstOp, Map, Phases};

use crate::cpu::Machine;
use body::Lanes;

/// Functions that generated code calls, as Cranelift references.
#[derive(Debug, Clone, Copy)]
pub struct Helpers {
    /// Calls a function of one f64, given by its address.
    pub call1: cranelift::codegen::ir::FuncRef,
    /// Calls a function of two f64, given by its address.
    pub call2: cranelift::codegen::ir::FuncRef,
}

/// The signature of all kernels: pointers, first row, row after the last.
pub fn signature(call_conv: isa::CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend([AbiParam::new(types::I64); 3]);
    signature
}

/// Lowers a loop into a function.
pub fn translate(
    function: &mut Function,
    context: &mut FunctionBuilderContext,
    map: &Map,
    machine: Machine,
    target: isa::TargetFrontendConfig,
    helpers: impl FnOnce(&mut Function) -> Helpers,
) {
    function.name = UserFuncName::default();
    let helpers = helpers(function);
    let (space, phases) = (Space::of(map), Phases::of(map));
    let mut b = FunctionBuilder::new(function, context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.seal_block(entry);
    let (table, from, to) = (
        b.block_params(entry)[0],
        b.block_params(entry)[1],
        b.block_params(entry)[2],
    );
    let flags = MemFlagsData::trusted().with_readonly();
    let accesses = space.loads.len() + space.stores.len();
    let pointers: Vec<Value> = (0..accesses)
        .map(|i| b.ins().load(types::I64, flags, table, (8 * i) as i32))
        .collect();
    let vector = machine.vectors.then(|| vector_type(map)).flatten();
    let mut kernel = body::Kernel {
        b: &mut b,
        map,
        space: &space,
        phases: &phases,
        machine,
        helpers,
    };
    match space.is_flat(map) {
        true => {
            kernel.flat(&pointers, from, to, vector);
        }
        false => {
            kernel.counted_loop(from, to, 1, &[], |kernel, row, _| {
                kernel.row(&pointers, row, vector);
                Vec::new()
            });
        }
    }
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(target);
}

/// The number of accumulator lanes of a row reduction: element i goes to lane i modulo this, whatever the vector width, so that the
/// reduction order is deterministic and sums have the same bits everywhere.
pub(crate) fn lanes_of(dtype: DType) -> usize {
    match dtype {
        DType::F64 => 4,
        _ => 8,
    }
}

/// The vector type of a loop that loads and stores floats of one type only; bools occur as masks in between.
fn vector_type(map: &Map) -> Option<Lanes> {
    let mut found = None;
    for inst in &map.body {
        let lanes = match inst.dtype {
            DType::F32 => Lanes::F32X4,
            DType::F64 => Lanes::F64X2,
            DType::Bool if !matches!(inst.op, InstOp::Load(_) | InstOp::Int(_)) => continue,
            _ => return None,
        };
        if *found.get_or_insert(lanes) != lanes {
            return None;
        }
    }
    let stored = |r: &usize| map.body[*r].dtype != DType::Bool;
    found.filter(|_| map.stores.iter().map(|s| &s.register).all(stored))
}
