//! Passes the optimisation level of this crate on to it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=TRAINSPEC_OPT_LEVEL={level}");
}
