//! Reads which modules a module of Rust names, through re-exports too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{File, Files};
use crate::tidy::files;

/// Everything that one module names in its own crate, and its re-exports.
#[derive(Default)]
struct Imports {
    used: BTreeSet<Vec<String>>,
    /// By the local name.
    passed_on: BTreeMap<String, Vec<String>>,
}

/// What stands before an item of tests only.
const FOR_TESTS: [&str; 2] = ["#[cfg(test)]", "#[cfg(feature = \"simulation\")]"];

/// The code without comments, string literals and test-only items.
fn code(text: &str) -> String {
    let plain = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut code, mut for_tests) = (String::new(), false);
    for line in plain.lines() {
        let next_is = FOR_TESTS.contains(&line.trim());
        if std::mem::replace(&mut for_tests, next_is) {
            continue;
        }
        let mut outside = true;
        let line = line.split("//").next().unwrap_or_default().replace("\\\"", "");
        for part in line.split('"') {
            code.push_str(if outside { part } else { "" });
            outside = !outside;
        }
        code.push('\n');
    }
    code
}

/// The paths of a `use` tree. `a::{b, c::d}` has two.
fn paths(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut depth = 0;
    let split = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    for part in tree.split(split).map(str::trim).filter(|part| !part.is_empty()) {
        let mut path = before.to_vec();
        if let Some((head, rest)) = part.split_once('{') {
            path.extend(
                head.split("::").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned),
            );
            paths(rest.strip_suffix('}').unwrap_or(rest), &path, found);
            continue;
        }
        let (name, alias) = part.split_once(" as ").unwrap_or((part, ""));
        path.extend(name.split("::").map(|s| s.trim().to_owned()).filter(|s| s != "self"));
        let alias = if alias.is_empty() {
            path.last().cloned().unwrap_or_default()
        } else {
            alias.to_owned()
        };
        found.push((path, alias));
    }
}

/// The path from the crate's root that `path` means in `module`. `None` if it belongs to another crate.
fn absolute(module: &[String], path: &[String], children: &[String]) -> Option<Vec<String>> {
    let up = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => Some([&module[..module.len().checked_sub(up)?], &path[up..]].concat()),
        first if children.iter().any(|child| child == first) => Some([module, path].concat()),
        _ => None,
    }
}

/// Everything that a module's text names.
fn imports(module: &[String], text: &str) -> Imports {
    let code = code(text);
    let children: Vec<String> = code
        .lines()
        .filter_map(|line| line.trim().rsplit_once("mod ")?.1.strip_suffix(';').map(str::to_owned))
        .collect();
    let (mut imports, mut rest) = (Imports::default(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let (before, after) = line.split_once("use ").unwrap_or((line, ""));
        let visible = before.trim().starts_with("pub");
        if after.is_empty() || !(visible || before.trim().is_empty()) {
            rest.push_str(line);
            rest.push('\n');
            continue;
        }
        let mut tree = after.to_owned();
        while !tree.contains(';') {
            tree.push_str(lines.next().expect("the end of a use"));
        }
        let mut found = Vec::new();
        paths(tree.trim_end_matches(';'), &[], &mut found);
        for (path, name) in found {
            match absolute(module, &path, &children) {
                Some(path) if visible => drop(imports.passed_on.insert(name, path)),
                Some(path) => drop(imports.used.insert(path)),
                None => {}
            }
        }
    }
    // Paths inside the code.
    for word in rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        let path: Vec<String> = word.trim_matches(':').split("::").map(str::to_owned).collect();
        if path.len() > 1 && matches!(path[0].as_str(), "crate" | "super") {
            imports.used.extend(absolute(module, &path, &children));
        }
    }
    imports
}

/// A crate's modules by path, each with its text. The crate root is not included.
type Modules = BTreeMap<Vec<String>, String>;

fn modules(source: &Path) -> Modules {
    let mut modules = Modules::new();
    for path in files(source, &[".rs"]) {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let mut name: Vec<String> =
            inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if name.last().is_some_and(|last| last == "mod") {
            name.pop();
        }
        if !name.iter().any(|part| ["lib", "tests"].contains(&part.as_str())) {
            modules.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    modules
}

/// The module that defines `path`, found through re-exports.
fn module_of(path: &[String], all: &BTreeMap<Vec<String>, Imports>) -> Option<Vec<String>> {
    let length = (1..=path.len()).rev().find(|length| all.contains_key(&path[..*length]))?;
    let (module, inner) = path.split_at(length);
    match inner.first().and_then(|name| all[module].passed_on.get(name)) {
        Some(passed_on) => module_of(passed_on, all),
        None => Some(module.to_vec()),
    }
}

/// The folder of a module: itself if it has files below it, otherwise the one that it is in.
fn folder(module: &[String], modules: &Modules) -> String {
    let is_folder = |other: &Vec<String>| other.len() > module.len() && other.starts_with(module);
    let inside = if modules.keys().any(is_folder) { module.len() } else { module.len() - 1 };
    module[..inside.max(1)].join("::")
}

/// The modules of a crate with their folders, and what each names.
pub(super) fn read(source: &Path) -> Files {
    read_modules(&modules(source))
}

fn read_modules(modules: &Modules) -> Files {
    let all: BTreeMap<_, _> =
        modules.iter().map(|(name, text)| (name.clone(), imports(name, text))).collect();
    let file = |(name, imports): (&Vec<String>, &Imports)| {
        let used = imports.used.iter().filter_map(|path| module_of(path, &all));
        let used = used.filter(|used| used != name).map(|used| used.join("::")).collect();
        (name.join("::"), File { folder: folder(name, modules), used })
    };
    all.iter().map(file).collect()
}

#[test]
fn finds_every_form_of_upward_import() {
    let read = |texts: &[(&str, &str)]| {
        let path = |name: &str| name.split("::").map(str::to_owned).collect();
        read_modules(&texts.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect())
    };
    let order = ["client", "lock", "node::redis", "node", "text"];
    let fine = [
        ("client", "use crate::node::Redis;\nuse crate::lock::{Lock, Names as Many};\n"),
        ("lock", "mod deep;\nuse std::fmt;\n"),
        ("lock::deep", "use super::super::node::{self, Fault};\nuse super::Lock;\n"),
        (
            "node",
            "mod fault;\nmod redis;\npub(crate) use redis::Redis;\n// use crate::lock::Lock;\n",
        ),
        ("node::fault", "#[cfg(test)]\nmod tests {\n    use crate::client::Client;\n}\n"),
        ("node::redis", "mod io;\npub(crate) struct Redis;\nuse io::open;\n"),
        ("node::redis::io", "use crate::node::fault::Fault;\nuse super::Redis;\n"),
        ("text", ""),
    ];
    assert_eq!(super::wrong(&order, &read(&fine)), Vec::<String>::new());
    // The file of a folder and the folder itself are one place, so is a re-export.
    for (at, up) in [
        (4, "use crate::client::Client;\n"),
        (4, "use crate::{\n    text::Text,\n    lock::deep::Deep,\n};\n"),
        (4, "use super::super::lock;\n"),
        (4, "use super::Redis;\n"),
        (4, "use super::redis::io::open;\n"),
        (2, "use super::super::client;\n"),
        (1, "fn lock() -> crate::client::Client;\n"),
        (7, "fn text() {\n    crate::node::fault::fault();\n}\n"),
        (7, "pub(crate) use crate::node::Fault;\n"),
    ] {
        let mut texts = fine;
        texts[at].1 = up;
        let wrong = super::wrong(&order, &read(&texts));
        // A name that is passed on from above is an error of those who use it from there.
        assert_eq!(wrong.len(), usize::from(!up.starts_with("pub")), "{up}: {wrong:?}");
    }
}
