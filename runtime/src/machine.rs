//! What the bits of a run depend on besides its spec, seed and data: the build, and the vector width of the machine.

use trainspec_compiler::codegen::cpu::Cpu;

use crate::program::Engine;

/// The record of a checkpoint that names the machine it was computed on.
pub(crate) const MACHINE_RECORD: &str = "machine/1";

/// The version of this build.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The engine and, where it is machine code, the features that code is generated for.
pub(crate) fn machine(engine: &Engine) -> String {
    match engine {
        Engine::Interpreted => "the interpreter".to_owned(),
        Engine::Compiled(_) => {
            let cpu = Cpu::host();
            let features = [
                ("AVX-512", cpu.has_avx512()),
                ("AVX2", cpu.has_avx2()),
                ("FMA", cpu.has_fma()),
            ];
            let names: Vec<&str> = (features.iter().filter(|(_, has)| *has))
                .map(|(name, _)| *name)
                .collect();
            format!("{} with {}", std::env::consts::ARCH, names.join(", "))
        }
    }
}

/// The text of [`MACHINE_RECORD`].
pub(crate) fn record(engine: &Engine) -> String {
    format!("trainspec {VERSION} on {}", machine(engine))
}

/// What to say of a checkpoint that was computed elsewhere; `None` where it was computed here, or does not say.
pub(crate) fn compare(recorded: Option<&str>, engine: &Engine) -> Option<String> {
    let (recorded, here) = (recorded?, record(engine));
    (recorded != here).then(|| {
        format!(
            "the checkpoint was made by {recorded}, and the run goes on with {here}: the same bits are not promised"
        )
    })
}
