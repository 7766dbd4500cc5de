//! The identity of a training: a hash (FNV-1a) of the canonical typed form of data, model and train.
//!
//! In: a checked spec. Out: the same text for all specs that train alike. Leaves out: comments and layout, evaluations and hooks, data sets
//! of evaluations alone, names of constants, when the training ends, and the warm start, which counts at a first start alone.

use crate::diag::Diagnostic;
use crate::lower::{self, Binding, Context, ProgramKind};
use crate::typed::{self, Spec};

/// What a training is, as text and as a hash of it.
///
/// ```
/// use trainspec_frontend::check::check;
/// use trainspec_frontend::identity::Identity;
/// use trainspec_frontend::source::{NoFiles, Sources};
///
/// let identity = |text: &str| {
///     let mut sources = Sources::default();
///     let root = sources.add("line", text);
///     let spec = check(&mut sources, root, &NoFiles, &Default::default()).spec.unwrap();
///     Identity::of(&spec).unwrap()
/// };
/// let model = "model (x: f32[batch], y: f32[batch]) { param a: f32 = zeros(); loss mean(square(a * x - y)); }";
/// let short = identity(&format!("spec line; {model} train {{ optimizer gradient_descent(0.1); steps 10; }}"));
/// let long = identity(&format!("spec line; {model} train {{ optimizer gradient_descent(0.1); steps 99; }} // longer"));
/// assert_eq!(short.hash, long.hash);
/// let other = identity(&format!("spec line; {model} train {{ optimizer gradient_descent(0.2); steps 10; }}"));
/// assert_ne!(short.hash, other.hash);
/// let difference = short.difference(&other.canonical).unwrap();
/// assert!(difference.contains("0.1") && difference.contains("0.2"), "{difference}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The canonical text.
    pub canonical: String,
    /// Its hash: 32 hexadecimal digits.
    pub hash: String,
}

impl Identity {
    /// The identity of a spec; fails where its initial values cannot be lowered.
    pub fn of(spec: &Spec) -> Result<Identity, Diagnostic> {
        let dims = Binding::new();
        let initial = lower::program_graph(&Context::new(spec, &dims), ProgramKind::Initial)?;
        let trained = spec.train.as_ref().and_then(|train| train.data.clone());
        let mut core = Spec::clone(spec);
        core.constants.clear();
        core.evals.clear();
        core.hooks.clear();
        core.hooks_off.clear();
        core.warm_start = None;
        core.data
            .retain(|data| Some(&data.name) == trained.as_ref());
        if let Some(train) = &mut core.train {
            train.until = None;
        }
        // The typed form names the initializers; their arguments are in the graph of initial values.
        let canonical = format!("{}\n{}", typed::print(&core), initial.graph);
        let hash = format!("{:032x}", fnv1a(canonical.as_bytes()));
        Ok(Identity { canonical, hash })
    }

    /// Where another canonical text differs first: both lines, or `None` where it does not.
    pub fn difference(&self, other: &str) -> Option<String> {
        let (mut own, mut others) = (self.canonical.lines(), other.lines());
        loop {
            match (own.next(), others.next()) {
                (None, None) => return None,
                (a, b) if a == b => {}
                (a, b) => {
                    let shown = |line: Option<&str>| line.unwrap_or("(nothing)").trim().to_owned();
                    return Some(format!("`{}`, and before `{}`", shown(a), shown(b)));
                }
            }
        }
    }
}

/// FNV-1a with 128 bits.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mix = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET_BASIS, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_has_the_published_values() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv1a(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
