//! Checks that the table of docs/contributing/replayed-tests.md matches these tests.

use std::collections::BTreeMap;
use std::process::Command;

use crate::tidy::root;

/// The verdicts on the page, and the modules here.
const VERDICTS: [(&str, &str); 5] = [
    ("same", "same"),
    ("better", "better"),
    ("differs", "differs"),
    ("no equivalent", "none"),
    ("worse", "worse"),
];
/// Number of cases in rslock 0.10.0: `#[test]` in src/lib.rs and its modules, documentation examples, programs in
/// `examples/`, and the README.
const THEIRS: [(&str, usize); 4] = [("", 34), ("doc_", 1), ("example_", 5), ("readme", 1)];

/// The tests of the other modules, each with its module.
fn played() -> BTreeMap<String, String> {
    let this = |more: &[&str]| {
        let mut this = Command::new(std::env::current_exe().unwrap());
        let listed = this.args(["replay::", "--list", "--format=terse"]).args(more).output();
        String::from_utf8(listed.unwrap().stdout).unwrap()
    };
    assert_eq!(this(&["--ignored"]), "", "a case that is not played");
    let mut played = BTreeMap::new();
    for line in this(&[]).lines() {
        let path: Vec<&str> = line.strip_suffix(": test").unwrap().split("::").collect();
        let (verdict, case) = (path[1], path[path.len() - 1]);
        if verdict != "table" {
            assert_eq!(played.insert(case.to_owned(), verdict.to_owned()), None, "{case} twice");
        }
    }
    played
}

/// The rows of rslock's section of the page, split into columns.
fn rows() -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(root().join("docs/contributing/replayed-tests.md")).unwrap();
    let (_, part) = page.split_once("### rslock 0.10.0\n").expect("a table of rslock");
    let part = part.split("\n#").next().unwrap_or(part);
    let lines = part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let columns = |line: &str| {
        line.trim_matches('|').split(" | ").map(|column| column.trim().to_owned()).collect()
    };
    lines.map(columns).collect()
}

#[test]
fn page_lists_the_verdict_of_each_case() {
    let mut verdicts = BTreeMap::new();
    for row in rows().iter().filter(|row| row.len() == 3 && row[0] != "behavior in their tests") {
        let here = &row[1];
        let says = |word: &str| here == word || here.starts_with(&format!("{word}: "));
        let of = VERDICTS.iter().find(|(word, _)| says(word));
        let (word, module) = of.unwrap_or_else(|| panic!("no verdict: {here}"));
        assert!(here != word || *word == "same", "no reason: {here}");
        for case in row[2].split(", ") {
            let case = case.trim_matches('`').to_owned();
            assert_eq!(verdicts.insert(case, (*module).to_owned()), None, "{row:?}");
        }
    }
    assert_eq!(verdicts, played());
}

#[test]
fn page_counts_match() {
    let played = played();
    let of = |module: &str| played.values().filter(|verdict| *verdict == module).count();
    let counts = VERDICTS.map(|(_, module)| of(module).to_string());
    let all = played.len().to_string();
    let expected: Vec<String> = ["rslock".to_owned(), all].into_iter().chain(counts).collect();
    assert!(rows().contains(&expected), "{expected:?}");
    assert_eq!(of("worse"), 0);
}

#[test]
fn no_rslock_case_is_missing() {
    let played = played();
    let others = || THEIRS[1..].iter().map(|(start, _)| start);
    for (start, count) in THEIRS {
        let is = |case: &&String| match start {
            "" => !others().any(|other| case.starts_with(other)),
            start => case.starts_with(start),
        };
        assert_eq!(played.keys().filter(is).count(), count, "{start}");
    }
}
