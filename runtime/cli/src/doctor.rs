//! `trainspec doctor`: the machine, the features that are used of it, and a self-test.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trainspec::Engine;
use trainspec::internals::memory;
use trainspec::internals::self_test::{SelfTest, self_test};
use trainspec_compiler::codegen::cpu::{Cpu, Machine};
use trainspec_compiler::readable_bytes;

use crate::output::{count, print, say};
use crate::{FAILED, FINE, Format, files};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The self-test trains small models for a step by machine code and by the reference interpreter, for about a \
                  second, and compares all numbers. The exit code is 1 where they differ by more than rounding explains."
)]
pub(crate) struct Arguments {
    /// The number of threads of the self-test [default: one for each core]
    #[arg(long, value_name = "N", value_parser = files::threads)]
    threads: Option<usize>,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// The time of the self-test.
const SELF_TEST_TIME: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> u8 {
    let about = About::of_this_machine();
    if arguments.format == Format::Text {
        about.lines().into_iter().for_each(say);
    }
    let engine = arguments
        .threads
        .map_or_else(Engine::default, Engine::compiled);
    let start = Instant::now();
    let outcome = self_test(&engine, SELF_TEST_TIME);
    let seconds = start.elapsed().as_secs_f64();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => SelfTest {
            failures: vec![error.to_string()],
            ..SelfTest::default()
        },
    };
    match arguments.format {
        Format::Json => print(about.json(&outcome, seconds)),
        Format::Text => tested(&outcome, seconds).into_iter().for_each(say),
    }
    match outcome.failures.is_empty() {
        true => FINE,
        false => FAILED,
    }
}

/// What is known of this machine.
struct About {
    /// The model of the processor, where the system names it.
    processor: Option<String>,
    cores: usize,
    memory: Option<u64>,
    features: Vec<&'static str>,
    /// The bits of the vectors of generated loops and of library routines.
    vectors: (u32, u32),
}

impl About {
    fn of_this_machine() -> About {
        let (cpu, machine) = (Cpu::host(), Machine::host());
        let features = [
            ("AVX2", cpu.has_avx2()),
            ("FMA", cpu.has_fma()),
            ("AVX-512", cpu.has_avx512()),
        ];
        let routines = match (cpu.has_avx512(), cpu.has_avx2_fma()) {
            (true, _) => 512,
            (false, true) => 256,
            (false, false) => 128,
        };
        About {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory::available(),
            features: features
                .into_iter()
                .filter(|(_, has)| *has)
                .map(|(name, _)| name)
                .collect(),
            vectors: (if machine.wide { 256 } else { 128 }, routines),
        }
    }

    fn lines(&self) -> Vec<String> {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let processor = self
            .processor
            .as_ref()
            .map_or(String::new(), |name| format!(", {name}"));
        let memory = self.memory.map_or(String::new(), |bytes| {
            format!(", {} of memory free", readable_bytes(bytes))
        });
        let features = match self.features.is_empty() {
            true => "no optional features are used".to_owned(),
            false => format!("{} are used", self.features.join(", ")),
        };
        let (loops, routines) = self.vectors;
        vec![
            format!(
                "trainspec {}, checkpoints as TensorFlow 2.21 writes them",
                env!("CARGO_PKG_VERSION")
            ),
            format!(
                "machine: {os} on {arch}{processor}, {}{memory}",
                count(self.cores, "core")
            ),
            format!(
                "code: {features}; loops have vectors of {loops} bits, matrix products of {routines}"
            ),
            "GPU: none is used; there is no GPU path, all code is for the CPU".to_owned(),
        ]
    }

    fn json(&self, outcome: &SelfTest, seconds: f64) -> Value {
        json!({
            "trainspec": env!("CARGO_PKG_VERSION"),
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "processor": self.processor,
            "cores": self.cores,
            "memory_bytes": self.memory,
            "features": self.features,
            "loop_bits": self.vectors.0,
            "routine_bits": self.vectors.1,
            "gpu": null,
            "self_test": {
                "programs": outcome.programs,
                "kernels": outcome.kernels,
                "values": outcome.values,
                "largest_difference": outcome.largest,
                "failures": outcome.failures,
                "seconds": seconds,
            },
        })
    }
}

/// The lines about a self-test.
fn tested(outcome: &SelfTest, seconds: f64) -> Vec<String> {
    let compared = format!(
        "{} with {}, {} in {seconds:.1} s",
        count(outcome.programs as usize, "program"),
        count(outcome.kernels as usize, "kernel"),
        count(outcome.values as usize, "number"),
    );
    match outcome.failures.as_slice() {
        [] => vec![
            format!(
                "self-test: {compared}; the largest difference from the interpreter is {:.1e}",
                outcome.largest
            ),
            "all is well".to_owned(),
        ],
        failures => {
            let mut lines = vec![format!(
                "self-test: {compared}; machine code and interpreter differ:"
            )];
            lines.extend(failures.iter().map(|failure| format!("  {failure}")));
            lines.push("this is a defect of trainspec or of the machine: please report it with these lines; `trainspec run --interpret` avoids machine code".to_owned());
            lines
        }
    }
}

/// The model of the processor, as Linux names it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}
