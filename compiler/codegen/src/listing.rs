//! Disassembly and CLIF listings of fused loops.
//!
//! In: kernels. Out: a listing of every fused loop among them, loops in the bodies of scans included. Leaves alone: library routines,
//! which are Rust. Nothing here is ever run.

use std::fmt::Write;

use cranelift::codegen::control::ControlPlane;
use cranelift::codegen::ir::{ExtFuncData, ExternalName, Function, UserExternalName};
use cranelift::codegen::{Context, isa::OwnedTargetIsa};
use cranelift::prelude::*;
use trainspec_ir::kernel::{KernelKind, Kernels, Map};

use crate::CompileError;
use crate::cpu::Machine;
use crate::translate::{Helpers, Space, signature, translate};
use crate::wide;

/// The target of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// The host.
    #[default]
    Host,
    /// An x86-64 with AVX2 and FMA, whatever this runs on, so that a listing can be compared.
    Haswell,
}

/// The form of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Cranelift IR (CLIF) before optimization.
    Clif,
    /// Assembly.
    Asm,
}

/// The listing of every loop of a program.
pub fn listing(kernels: &Kernels, form: Form, target: Target) -> Result<String, CompileError> {
    let isa = isa(target)?;
    let mut out = String::new();
    kernels_of(kernels, "", form, target, &isa, &mut out)?;
    Ok(out)
}

/// The listing of one loop. Assembly comes from the AVX2 emitter where the target has 256-bit vectors and the emitter supports the loop.
fn of_map(
    map: &Map,
    form: Form,
    target: Target,
    isa: &OwnedTargetIsa,
) -> Result<String, CompileError> {
    if form == Form::Asm
        && machine(target).wide
        && let Some(listing) = wide::compile(map, &Space::of(map), true).and_then(|w| w.listing)
    {
        return Ok(listing);
    }
    let mut context = Context::new();
    context.func.signature = signature(isa.default_call_conv());
    translate(
        &mut context.func,
        &mut FunctionBuilderContext::new(),
        map,
        machine(target),
        isa.frontend_config(),
        helpers,
    );
    match form {
        Form::Clif => Ok(context.func.display().to_string()),
        Form::Asm => {
            context.set_disasm(true);
            let code = context
                .compile(isa.as_ref(), &mut ControlPlane::default())
                .map_err(|e| CompileError::Cranelift(format!("{:?}", e.inner)))?;
            Ok(code.vcode.clone().unwrap_or_default())
        }
    }
}

fn kernels_of(
    kernels: &Kernels,
    prefix: &str,
    form: Form,
    target: Target,
    isa: &OwnedTargetIsa,
    out: &mut String,
) -> Result<(), CompileError> {
    for (i, kernel) in kernels.kernels.iter().enumerate() {
        let number = format!("{prefix}{i}");
        let _ = write!(out, "; {number}  {}", kernel.name());
        match &kernel.kind {
            KernelKind::Map(map) => {
                let _ = writeln!(out, " of {} steps", map.body.len());
                out.push_str(of_map(map, form, target, isa)?.trim_end());
                out.push_str("\n\n");
            }
            KernelKind::Call { epilogue: None, .. } => out.push_str("\n\n"),
            KernelKind::Call {
                epilogue: Some(map),
                ..
            } => {
                out.push('\n');
                out.push_str(of_map(map, form, target, isa)?.trim_end());
                out.push_str("\n\n");
            }
            KernelKind::Scan { body, .. } => {
                out.push_str("\n\n");
                kernels_of(body, &format!("{number}."), form, target, isa, out)?;
            }
        }
    }
    Ok(())
}

fn machine(target: Target) -> Machine {
    match target {
        Target::Host => Machine::host(),
        Target::Haswell => Machine {
            fma: true,
            vectors: true,
            wide: true,
        },
    }
}

fn isa(target: Target) -> Result<OwnedTargetIsa, CompileError> {
    let refused = |e: &dyn std::fmt::Display| CompileError::Cranelift(e.to_string());
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", "speed"),
        ("is_pic", "false"),
        ("enable_verifier", "true"),
    ] {
        flags.set(name, value).map_err(|e| refused(&e))?;
    }
    let builder = match target {
        Target::Host => cranelift_native::builder().map_err(|e| refused(&e))?,
        Target::Haswell => {
            let mut builder = isa::lookup_by_name("x86_64-linux").map_err(|e| refused(&e))?;
            builder.enable("haswell").map_err(|e| refused(&e))?;
            builder
        }
    };
    builder
        .finish(settings::Flags::new(flags))
        .map_err(|e| refused(&e))
}

/// Functions that generated code calls, as imported symbols.
fn helpers(function: &mut Function) -> Helpers {
    let mut import = |index: u32, numbers: usize| {
        let mut signature = Signature::new(function.signature.call_conv);
        signature.params.push(AbiParam::new(types::I64));
        signature
            .params
            .extend(vec![AbiParam::new(types::F64); numbers]);
        signature.returns.push(AbiParam::new(types::F64));
        let signature = function.import_signature(signature);
        let name = UserExternalName::new(0, index);
        let name = function.declare_imported_user_function(name);
        function.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: false,
            patchable: false,
        })
    };
    Helpers {
        call1: import(0, 1),
        call2: import(1, 2),
    }
}

/// Whether a target can be listed here: the backends of other architectures are left out of the build.
pub fn can_list(target: Target) -> bool {
    isa(target).is_ok()
}
