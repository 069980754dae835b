//! A folder uses only the folders below it. A file of the root counts as a folder. One test reads the imports of every
//! source file, in Rust, Python and TypeScript, and compares them with one list for each part.
//!
//! `docs/contributing/architecture.md` shows the same lists. An upward import is either a mistake or a reason to move
//! what is imported.

mod python;
mod rust;
mod typescript;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::{files, root};

/// The core's folders, from top to bottom. A file of the crate's root counts as a folder.
const CORE: &[&str] = &[
    "ffi",
    "testing",
    "client",
    "lock",
    "engine",
    "acquire",
    "lease",
    "fairness",
    "quorum",
    "options",
    "primitive",
    "node::memory",
    "node::redis::cluster",
    "node::redis::server",
    "node::redis::node_task",
    "node::redis::connection::task",
    "node::redis::connect",
    "node::redis::sentinel",
    "node::redis::login",
    "node::redis::connection",
    "node::redis::connection::session",
    "node::redis::protocol",
    "node::redis::url",
    "node::redis::state",
    "node::redis::io",
    "node::redis::io::tls",
    "node::redis::commands",
    "node::redis",
    "node",
    "drivers",
    "telemetry",
    "clock",
    "runtime",
    "error",
    "collections",
    "text",
];

/// The modules of the command line, from top to bottom.
const CLI: &[&str] = &[
    "run",
    "doctor",
    "inspect",
    "list",
    "wait",
    "release",
    "connection",
    "snapshot",
    "report",
    "times",
    "status",
];

/// The folders of the Python binding's Rust part, from top to bottom.
const PYTHON_RUST: &[&str] = &[
    "panic",
    "command_line",
    "testing",
    "classes",
    "describe",
    "snapshots",
    "pickle",
    "leader",
    "once",
    "bodies",
    "function_macros",
    "rwlock",
    "client",
    "construct",
    "lock",
    "inspection",
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
    "runtime",
    "errors",
    "unsupported",
    "once_cell",
];

/// The modules of the package, from top to bottom. `_native` is the Rust part, which uses the classes of `errors`.
const PYTHON: &[&str] = &[
    "__main__",
    "pytest_plugin",
    "testing",
    "_async_testing",
    "_test_waits",
    "otel",
    "__init__",
    "_leader",
    "_once",
    "_asyncio",
    "_decorator",
    "_naming",
    "_current",
    "_body",
    "_trio",
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

/// The folders of the Node.js binding's Rust part, from top to bottom.
const NODE_RUST: &[&str] = &[
    "panic",
    "command_line",
    "client",
    "sender",
    "lock",
    "lease",
    "options",
    "callbacks",
    "runtime",
    "held",
    "pending",
    "rows",
    "outcome",
    "callback_requests",
    "inspection",
    "ping",
    "stats",
    "event",
    "errors",
    "number",
];

/// The folders of `bindings-node/ts`, from top to bottom. The first one has the entry points.
const TYPESCRIPT: &[&str] = &[
    ".",
    "load",
    "client",
    "compat",
    "lock",
    "scope",
    "lease",
    "runtime",
    "telemetry",
    "options",
    "errors",
    "platform",
];

/// A source file: its folder, and the files that it names.
struct File {
    folder: String,
    used: Vec<String>,
}

/// The source files of one part by name.
type Files = BTreeMap<String, File>;

/// The parts: where each is, its folders from top to bottom, and how its imports are read.
#[expect(clippy::type_complexity, reason = "a table with one function in each row")]
const PARTS: [(&str, &[&str], fn(&Path) -> Files); 6] = [
    ("core/src", CORE, rust::read),
    ("cli/src", CLI, rust::read),
    ("bindings-python/src", PYTHON_RUST, rust::read),
    ("bindings-python/python/redlock", PYTHON, python::read),
    ("bindings-node/src", NODE_RUST, rust::read),
    ("bindings-node/ts", TYPESCRIPT, typescript::read),
];

/// What contradicts the order: upward imports, folders that are missing in it, folders and files that do not exist.
fn wrong(order: &[&str], files: &Files) -> Vec<String> {
    let place = |folder: &str| order.iter().position(|name| *name == folder);
    let existing: BTreeSet<&str> = files.values().map(|file| &*file.folder).collect();
    let unknown = existing.iter().filter(|name| place(name).is_none());
    let gone = order.iter().filter(|name| !existing.contains(**name));
    let mut wrong: Vec<String> =
        unknown.map(|name| format!("{name} is missing in the list")).collect();
    wrong.extend(gone.map(|name| format!("{name} is in the list and does not exist")));
    for (name, File { folder, used }) in files {
        for used in used {
            let Some(File { folder: other, .. }) = files.get(used) else {
                wrong.push(format!("{name} uses {used}, which does not exist"));
                continue;
            };
            if place(other) < place(folder) {
                wrong.push(format!("{name} ({folder}) uses {used} ({other}), which is above it"));
            }
        }
    }
    wrong
}

#[test]
fn folders_use_only_lower_folders() {
    for (part, order, read) in PARTS {
        let wrong = wrong(order, &read(&root().join(part)));
        assert!(wrong.is_empty(), "{part}: {}", wrong.join("\n"));
    }
}

#[test]
fn typescript_files_do_not_import_each_other() {
    let files = typescript::read(&root().join("bindings-node/ts"));
    assert_eq!(typescript::cycles(&files), Vec::<String>::new());
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

/// The folders of a part in the order of `docs/contributing/architecture.md`.
fn documented(part: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/contributing/architecture.md")).unwrap();
    let heading = format!("## Source layout of `{part}`\n");
    let (_, section) = text.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn architecture_page_shows_the_same_order() {
    for (part, order, _) in PARTS {
        assert_eq!(
            documented(part),
            order,
            "docs/contributing/architecture.md and the list of {part}"
        );
    }
}

#[test]
fn list_must_name_every_folder() {
    let file = |folder: &str| (folder.to_owned(), File { folder: folder.to_owned(), used: vec![] });
    let files = Files::from([file("a"), file("b")]);
    assert_eq!(wrong(&["a", "b"], &files), Vec::<String>::new());
    assert_eq!(wrong(&["a"], &files), ["b is missing in the list"]);
    assert_eq!(wrong(&["a", "b", "c"], &files), ["c is in the list and does not exist"]);
}
