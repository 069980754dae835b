//! The dependencies of the crate: exact for each feature, and never more than comparable crates have.

use std::collections::BTreeSet;
use std::process::Command;

use crate::tidy::root;

/// The names of all crates that a build with these features needs, including build scripts and macros.
fn crates(features: &str) -> BTreeSet<String> {
    let run = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "redlock-native"])
        .args(["--edges", "normal,build", "--prefix", "none", "--no-default-features"])
        .args(["--features", features])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn build_without_features_needs_no_c_and_few_crates() {
    let (least, tls, tracing) = (crates(""), crates("tls"), crates("tracing"));
    for (feature, of, brings) in
        [("tls", &tls, ["rustls", "ring", "cc"]), ("tracing", &tracing, ["tracing"; 3])]
    {
        for name in brings {
            assert!(of.contains(name), "{feature} no longer brings {name}: what does?");
            assert!(!least.contains(name), "{name} is there without {feature}");
        }
    }
    let (metered, default) = (crates("metrics"), crates("default"));
    assert!(metered.contains("metrics"), "the feature brings its crate");
    assert!(!default.contains("metrics"), "the default build does not need it");
    // rslock 0.10.0 has 82, including itself (docs/reference/rust-details.md).
    assert!(least.len() > 20 && least.len() <= 82, "{} crates: {least:?}", least.len());
}
