//! Machine code in memory.

use std::time::{Duration, Instant};

use cranelift::codegen::ir::Function;
use cranelift::prelude::*;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError};
use trainspec_ir::kernel::Map;

use crate::translate::{Helpers, Machine, Space, signature, translate};
use crate::wide;

/// Of [`mod@translate`]: pointers, first row, row after the last.
type Plain = unsafe extern "C" fn(*const *mut u8, i64, i64);
/// Of [`wide`]: pointers, which it changes, the number of rows, their length.
pub(super) type Wide = unsafe extern "C" fn(*mut *mut u8, i64, i64);

/// A kernel in memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// By Cranelift.
    Plain(Plain),
    /// Of 256-bit vectors.
    Wide {
        run: Wide,
        /// Whether it needs a place for rows.
        keeps_rows: bool,
    },
}

/// The functions of a program. Their pages can be read and run, not written, and live as long as this does.
pub(super) struct Code {
    module: Option<JITModule>,
    entries: Vec<Entry>,
    /// How long it took to compile each.
    times: Vec<Duration>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({} kernels)", self.entries.len())
    }
}

/// Calls a function of one number for machine code.
extern "C" fn call1(f: usize, x: f64) -> f64 {
    // SAFETY: only `translate` emits calls of this, always with the address of a `fn(f64) -> f64`.
    let f: fn(f64) -> f64 = unsafe { std::mem::transmute(f) };
    f(x)
}

/// Calls a function of two numbers for machine code.
extern "C" fn call2(f: usize, x: f64, y: f64) -> f64 {
    // SAFETY: only `translate` emits calls of this, always with the address of a `fn(f64, f64) -> f64`.
    let f: fn(f64, f64) -> f64 = unsafe { std::mem::transmute(f) };
    f(x, y)
}

impl Code {
    /// All functions.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Compiles loops; their entries have the same order.
    pub(super) fn compile(
        maps: &[&Map],
        wanted: Option<Machine>,
    ) -> Result<Code, Box<ModuleError>> {
        let mut flags = settings::builder();
        let set = |flags: &mut settings::Builder, name: &str, value: &str| {
            flags.set(name, value).expect("Cranelift knows the setting");
        };
        set(&mut flags, "opt_level", "speed");
        set(
            &mut flags,
            "enable_verifier",
            if cfg!(debug_assertions) {
                "true"
            } else {
                "false"
            },
        );
        set(&mut flags, "is_pic", "false");
        let isa = cranelift_native::builder().expect("the host is a machine that Cranelift knows");
        let isa = isa
            .finish(settings::Flags::new(flags))
            .expect("the settings fit the host");
        let machine = wanted.unwrap_or_else(Machine::host);
        let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
        builder.symbol("call1", call1 as *const u8);
        builder.symbol("call2", call2 as *const u8);
        let mut module = JITModule::new(builder);
        let helpers = [("call1", 1), ("call2", 2)].map(|(name, n)| import(&mut module, name, n));
        let [call1, call2] = helpers;
        let mut ids = Vec::with_capacity(maps.len());
        let mut frontend = FunctionBuilderContext::new();
        let mut context = module.make_context();
        let mut times = Vec::with_capacity(maps.len());
        for map in maps {
            let start = Instant::now();
            let target = module.target_config();
            context.func.signature = signature(target.default_call_conv);
            let function = match machine.wide && wide::is_supported() {
                true => wide::compile(map, &Space::of(map), false),
                false => None,
            };
            if let Some(function) = function {
                let id = module
                    .declare_anonymous_function(&context.func.signature)
                    .map_err(Box::new)?;
                module
                    .define_function_bytes(id, 64, &function.bytes, &[])
                    .map_err(Box::new)?;
                ids.push((id, Some(function.uses_row_buffer)));
                times.push(start.elapsed());
                continue;
            }
            let helpers = |function: &mut Function| Helpers {
                call1: module.declare_func_in_func(call1, function),
                call2: module.declare_func_in_func(call2, function),
            };
            translate(
                &mut context.func,
                &mut frontend,
                map,
                machine,
                target,
                helpers,
            );
            let id = module
                .declare_anonymous_function(&context.func.signature)
                .map_err(Box::new)?;
            module.define_function(id, &mut context).map_err(Box::new)?;
            module.clear_context(&mut context);
            ids.push((id, None));
            times.push(start.elapsed());
        }
        module.finalize_definitions().map_err(Box::new)?;
        let entry = |(id, wide): &(FuncId, Option<bool>)| {
            let address = module.get_finalized_function(*id);
            match *wide {
                None => {
                    // SAFETY: the function was declared with `signature`, which is that of the entry under the host's convention,
                    // and its pages live until `Code` is dropped; `Code` hands entries out for calls alone.
                    Entry::Plain(unsafe { std::mem::transmute::<*const u8, Plain>(address) })
                }
                Some(keeps_rows) => {
                    // SAFETY: the same; `wide` writes functions of this kind, for the convention of this target.
                    let run = unsafe { std::mem::transmute::<*const u8, Wide>(address) };
                    Entry::Wide { run, keeps_rows }
                }
            }
        };
        let entries = ids.iter().map(entry).collect();
        Ok(Code {
            module: Some(module),
            entries,
            times,
        })
    }

    pub(super) fn entry(&self, kernel: usize) -> Entry {
        self.entries[kernel]
    }

    /// How long it took to compile a kernel.
    pub(super) fn compile_time(&self, kernel: usize) -> Duration {
        self.times[kernel]
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.entries.clear();
        if let Some(module) = self.module.take() {
            // SAFETY: entries are called through `Code` only, which is being dropped, so no code of the module runs or will run.
            unsafe { module.free_memory() };
        }
    }
}

fn import(module: &mut JITModule, name: &str, numbers: usize) -> FuncId {
    let mut signature = Signature::new(module.target_config().default_call_conv);
    signature.params.push(AbiParam::new(types::I64));
    signature
        .params
        .extend(vec![AbiParam::new(types::F64); numbers]);
    signature.returns.push(AbiParam::new(types::F64));
    module
        .declare_function(name, Linkage::Import, &signature)
        .expect("the name is declared once")
}
