//! A module of the Node binding imports only the modules below it, in Rust and in TypeScript.

use std::collections::BTreeMap;
use std::fs;

use crate::imports::{documented, modules, wrong};
use crate::tidy::{files, root};

/// The modules of `bindings-node/src`, from top to bottom.
const RUST: &[&str] = &[
    "panic",
    "client",
    "calls",
    "lock",
    "lease",
    "options",
    "callbacks",
    "runtime",
    "runtime::outcomes",
    "runtime::thread_state",
    "runtime::host",
    "runtime::log",
    "runtime::event_loop",
    "runtime::descriptor",
    "runtime::turn",
    "runtime::libuv",
    "runtime::wake",
    "held",
    "pending",
    "batch",
    "outcome",
    "inspection",
    "stats",
    "event",
    "errors",
    "number",
];

/// The files of `bindings-node`, from top to bottom.
const TYPESCRIPT: &[&str] = &[
    "testing.ts",
    "loaded.ts",
    "index.ts",
    "load.ts",
    "binary.ts",
    "default.ts",
    "client.ts",
    "existing.ts",
    "ioredis.ts",
    "noderedis.ts",
    "foreign-settings.ts",
    "lock.ts",
    "scope.ts",
    "lease-list.ts",
    "bound-lock.ts",
    "lease.ts",
    "inspect-format.ts",
    "handle.ts",
    "collection.ts",
    "loss.ts",
    "calls.ts",
    "trace.ts",
    "runtime.ts",
    "batch.ts",
    "events.ts",
    "async-context.ts",
    "pending.ts",
    "warnings.ts",
    "options.ts",
    "callbacks.ts",
    "credentials.ts",
    "address-map.ts",
    "values.ts",
    "errors.ts",
    "addresses.ts",
    "stack.ts",
    "trust.ts",
    "clock.ts",
];

/// The files that a file's text names: values and types, imports and re-exports.
fn named(text: &str) -> Vec<String> {
    let quoted = text.split("\"./").skip(1).filter_map(|rest| rest.split_once(".js\""));
    quoted.map(|(name, _)| format!("{name}.ts")).collect()
}

/// Errors in the order: upward imports, files missing in the list, and listed files that do not exist.
fn wrong_files(order: &[&str], texts: &BTreeMap<String, String>) -> Vec<String> {
    let place = |file: &str| order.iter().position(|name| *name == file);
    let missing = order.iter().filter(|name| !texts.contains_key(**name));
    let mut wrong: Vec<String> =
        missing.map(|name| format!("{name} stands in the list and nowhere else")).collect();
    for (file, text) in texts {
        let Some(from) = place(file) else {
            wrong.push(format!("{file} is missing from the list"));
            continue;
        };
        let up = named(text).into_iter().filter(|used| place(used).is_some_and(|to| to <= from));
        wrong
            .extend(up.map(|used| format!("{file} imports {used}, which does not stand below it")));
    }
    wrong
}

#[test]
fn node_modules_call_only_lower_modules() {
    let wrong = wrong(RUST, &modules(&root().join("bindings-node/src")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn node_files_call_only_lower_files() {
    let mut texts = BTreeMap::new();
    for path in files(&root().join("bindings-node"), &[".ts"]) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // It is generated. Its imports are in Rust.
        if name != "native.d.ts" {
            texts.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    let wrong = wrong_files(TYPESCRIPT, &texts);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn architecture_page_shows_the_node_order() {
    for (folder, order) in [("bindings-node/src", RUST), ("bindings-node", TYPESCRIPT)] {
        assert_eq!(
            documented(folder),
            order,
            "docs/contributing/architecture.md and the list disagree"
        );
    }
}

#[test]
fn finds_every_form_of_upward_typescript_import() {
    let made_up = |lower: &str| {
        let texts = [("a.ts", "import { b } from \"./b.js\";\n"), ("b.ts", lower)];
        texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    };
    let fine = "import { setTimeout } from \"node:timers\";\nimport { n } from \"./native.js\";\n";
    assert_eq!(wrong_files(&["a.ts", "b.ts"], &made_up(fine)), Vec::<String>::new());
    for up in [
        "import { a } from \"./a.js\";\n",
        "import {\n  a,\n} from \"./a.js\";\n",
        "import type { A } from \"./a.js\";\n",
        "export * from \"./a.js\";\n",
        "const a = await import(\"./a.js\");\n",
    ] {
        assert_eq!(wrong_files(&["a.ts", "b.ts"], &made_up(up)).len(), 1, "{up}");
    }
    assert_eq!(wrong_files(&["a.ts"], &made_up(fine)), ["b.ts is missing from the list"]);
    let more = wrong_files(&["a.ts", "b.ts", "c.ts"], &made_up(fine));
    assert_eq!(more, ["c.ts stands in the list and nowhere else"]);
}
