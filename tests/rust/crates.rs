//! The dependencies of the crate: exact for each feature, and never more than comparable crates have.

use std::collections::BTreeSet;
use std::fs;
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

/// The number of packages, of which some have the same name.
fn count(features: &str) -> usize {
    let run = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "redlock-native", "--no-dedupe"])
        .args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .args(["--target", "x86_64-unknown-linux-gnu", "--no-default-features"])
        .args(["--features", features])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap().lines().collect::<BTreeSet<_>>().len()
}

#[test]
fn page_has_the_number_of_crates() {
    let page = fs::read_to_string(root().join("docs/reference/rust-details.md")).unwrap();
    let (none, tracing, default) = (count(""), count("tracing"), count("default"));
    for row in [
        format!("| without features | {none} | "),
        format!("| `tracing` | {tracing} | "),
        format!("| both, the default | {default} | "),
    ] {
        assert!(page.contains(&row), "the page differs: {row}");
    }
    let added = [tracing - none, count("default,metrics") - default];
    assert_eq!(added, [2, 2], "the page says how many crates `tracing` and `metrics` add");
    assert_eq!(page.matches("Two small crates").count(), 2);
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
