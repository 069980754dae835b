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

/// Every crate with each set of features that a build of these packages compiles it with.
fn compiled(selection: &[&str], edges: &str) -> BTreeSet<(String, String)> {
    let run = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p}|{f}"])
        .args(["--no-dedupe", "--edges", edges])
        .args(selection)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap();
    let crates = text.lines().filter_map(|line| line.split_once('|'));
    crates.map(|(name, features)| (name.to_owned(), features.to_owned())).collect()
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

/// Otherwise `make test` would compile the core again after `make demo`.
#[test]
fn demo_and_tests_compile_each_crate_with_the_same_features() {
    let packages = ["redlock-python", "redlock-node", "redlock-quickstart"];
    let demo = compiled(&packages.map(|name| ["--package", name]).concat(), "normal,build");
    let tests = compiled(&["--workspace"], "normal,build,dev");
    let missing = demo.difference(&tests).collect::<Vec<_>>();
    assert!(
        missing.is_empty(),
        "add their features to examples/quickstart/Cargo.toml: {missing:?}"
    );
}
