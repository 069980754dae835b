//! A module of the Python binding imports only the modules below it, in Rust and in Python. Calls between the two have
//! one direction.

use std::collections::BTreeMap;
use std::fs;

use crate::imports::{documented, modules, wrong};
use crate::tidy::{files, root};

/// The modules of `bindings-python/src`, from top to bottom.
const RUST: &[&str] = &[
    "panic",
    "testing",
    "classes",
    "describe",
    "pickle",
    "client::async_client",
    "client::asyncio",
    "client::ending",
    "client",
    "construct",
    "lock::asyncio",
    "lock::methods",
    "lock::foreign_methods",
    "lock::async_lock",
    "lock::acquire",
    "lock::exit_stack",
    "lock",
    "lock::open_scopes",
    "inspection",
    "lease::async_lease",
    "lease::asyncio",
    "lease::methods",
    "lease::watching",
    "lease::holder",
    "lease",
    "caller",
    "registry",
    "owner",
    "call_site",
    "source",
    "stats",
    "options",
    "address_map",
    "credentials",
    "callbacks",
    "args",
    "runtime::spawn",
    "runtime::event_loop",
    "runtime::completions",
    "runtime::pending_calls",
    "runtime::loop_future",
    "runtime::loop_future::done_callback",
    "runtime::loop_future::outcome",
    "runtime::queue",
    "runtime::pipe",
    "runtime::observe",
    "runtime::watch",
    "runtime::loss_callback",
    "runtime::log",
    "runtime::dispatcher",
    "runtime::waker",
    "runtime::async_backends",
    "runtime::wait",
    "runtime::interpreter_end",
    "runtime::exit",
    "runtime::greenlets",
    "runtime",
    "errors",
    "once_cell",
];

/// The modules of the package, from top to bottom. `_native` is the Rust part, which uses the classes of `errors`.
const PYTHON: &[&str] = &[
    "pytest_plugin",
    "testing",
    "otel",
    "__init__",
    "_asyncio",
    "_body",
    "_trio",
    "_decorator",
    "_naming",
    "_log",
    "_client",
    "_interpreter",
    "_coroutine_function",
    "_redis_py",
    "_redis_login",
    "_redis_settings",
    "_native",
    "errors",
    "types",
];

/// The imports of a Python file from its own package, with their lines.
fn imported(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let names: Vec<&str> = match line.strip_prefix("from ") {
            Some(from) => match from.split_once(" import ") {
                Some(("redlock", names)) => {
                    names.split(',').map(|name| name.split(" as ").next().unwrap_or(name)).collect()
                }
                Some((module, _)) => module.strip_prefix("redlock.").into_iter().collect(),
                None => Vec::new(),
            },
            None => line.strip_prefix("import redlock.").into_iter().collect(),
        };
        let name = |name: &str| name.trim().split('.').next().unwrap_or_default().to_owned();
        found.extend(names.into_iter().map(|part| (name(part), line.to_owned())));
    }
    found
}

/// Errors in the order: upward imports, files missing in the list, and listed files that do not exist.
fn wrong_files(order: &[&str], texts: &BTreeMap<String, String>) -> Vec<String> {
    let place = |file: &str| order.iter().position(|name| *name == file);
    let there = |name: &&&str| **name == "_native" || texts.contains_key(**name);
    let missing = order.iter().filter(|name| !there(name));
    let mut wrong: Vec<String> =
        missing.map(|name| format!("{name} stands in the list and nowhere else")).collect();
    for (file, text) in texts {
        let Some(from) = place(file) else {
            wrong.push(format!("{file} is missing from the list"));
            continue;
        };
        for (used, line) in imported(text) {
            if place(&used).is_some_and(|to| to <= from) {
                wrong
                    .push(format!("{file} imports {used}, which does not stand below it ({line})"));
            }
        }
    }
    wrong
}

/// The folders whose modules do not stand together in the order. In a stack of folders, no other module is between
/// them.
pub(crate) fn split_folders(order: &[&str]) -> Vec<String> {
    let is_in = |module: &str, folder: &str| {
        module.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let mut split = Vec::new();
    for folder in
        order.iter().filter_map(|module| module.rsplit_once("::")).map(|(folder, _)| folder)
    {
        let places = || (0..order.len()).filter(|at| is_in(order[*at], folder));
        let (first, last) = (places().next(), places().next_back());
        if first.zip(last).is_some_and(|(first, last)| last - first + 1 != places().count()) {
            split.push(folder.to_owned());
        }
    }
    split.dedup();
    split
}

#[test]
fn python_modules_call_only_lower_modules() {
    let wrong = wrong(RUST, &modules(&root().join("bindings-python/src")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(split_folders(RUST), Vec::<String>::new());
}

#[test]
fn finds_folders_that_do_not_stand_together() {
    assert_eq!(
        split_folders(&["a::b", "a", "a::c", "ab", "d::e::f", "d::e", "d"]),
        Vec::<String>::new()
    );
    assert_eq!(split_folders(&["a::b", "d", "a"]), ["a"]);
    assert_eq!(split_folders(&["a::b::c", "a::d", "a::b"]), ["a::b"]);
}

#[test]
fn python_files_call_only_lower_files() {
    let mut texts = BTreeMap::new();
    for path in files(&root().join("bindings-python/python/redlock"), &[".py"]) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        texts.insert(name, fs::read_to_string(&path).unwrap());
    }
    let wrong = wrong_files(PYTHON, &texts);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn native_code_uses_only_error_classes_of_python() {
    for path in files(&root().join("bindings-python/src"), &[".rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.trim().starts_with("//")) {
            let names = line.contains("\"redlock.") && line.contains("import(");
            assert!(!names || line.contains("\"redlock.errors\""), "{}: {line}", path.display());
        }
    }
}

#[test]
fn architecture_page_shows_the_python_order() {
    for (folder, order) in [("bindings-python/src", RUST), ("bindings-python/python", PYTHON)] {
        assert_eq!(
            documented(folder),
            order,
            "docs/contributing/architecture.md and the list disagree"
        );
    }
}

#[test]
fn finds_every_form_of_upward_python_import() {
    let made_up = |lower: &str| {
        let texts = [("a", "from redlock.b import f\n"), ("b", lower)];
        texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    };
    let fine = "import asyncio\nfrom redlock import _native\nfrom redlock._native import Lock\n";
    let order = ["a", "b", "_native"];
    assert_eq!(wrong_files(&order, &made_up(fine)), Vec::<String>::new());
    for up in [
        "from redlock.a import f\n",
        "from redlock import _native, a as _a\n",
        "import redlock.a\n",
        "def f():\n    from redlock.a import g\n",
    ] {
        assert_eq!(wrong_files(&order, &made_up(up)).len(), 1, "{up}");
    }
    assert_eq!(wrong_files(&["a", "_native"], &made_up(fine)), ["b is missing from the list"]);
    let more = wrong_files(&["a", "b", "_native", "c"], &made_up(fine));
    assert_eq!(more, ["c stands in the list and nowhere else"]);
}
