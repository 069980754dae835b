//! In the Node binding, a module of Rust imports only the modules below it, and a folder of TypeScript only the folders
//! below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::imports::{documented, modules, wrong};
use crate::imports_python::split_folders;
use crate::tidy::{files, root};

/// The modules of `bindings-node/src`, from top to bottom.
const RUST: &[&str] = &[
    "panic",
    "client",
    "sender",
    "lock",
    "lease",
    "options",
    "callbacks",
    "runtime",
    "runtime::spawn",
    "runtime::outcomes",
    "runtime::reader",
    "runtime::thread_state",
    "runtime::delivered",
    "runtime::host",
    "runtime::log",
    "runtime::event_loop",
    "runtime::descriptor",
    "runtime::turn",
    "runtime::libuv",
    "runtime::wake",
    "held",
    "pending",
    "rows",
    "outcome",
    "callback_requests",
    "inspection",
    "stats",
    "event",
    "errors",
    "number",
];

/// The folders of `bindings-node/ts`, from top to bottom. The first one has the entry points.
const FOLDERS: &[&str] = &[
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

/// It is generated, and every folder may use it. Its imports are in Rust.
const NATIVE: &str = "native";

type Texts = BTreeMap<String, String>;

/// The folder of a file that is named by its path without an ending.
fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// The files that a file's text names, by values and types, imports and re-exports.
fn named(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split('"').skip(1).step_by(2) {
        let Some(path) = rest.strip_suffix(".js").filter(|path| path.starts_with('.')) else {
            continue;
        };
        let mut parts: Vec<&str> = folder(file).split('/').filter(|part| *part != ".").collect();
        for part in path.split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                _ => parts.push(part),
            }
        }
        found.push(parts.join("/"));
    }
    found.retain(|used| used != NATIVE);
    found
}

/// Errors in the stack: imports from a folder above, unknown folders, and listed folders that do not exist.
fn wrong_folders(order: &[&str], texts: &Texts) -> Vec<String> {
    let place = |file: &str| order.iter().position(|name| *name == folder(file));
    let existing: BTreeSet<&str> = texts.keys().map(|file| folder(file)).collect();
    let missing = order.iter().filter(|name| !existing.contains(**name));
    let mut wrong: Vec<String> =
        missing.map(|name| format!("the folder {name} does not exist")).collect();
    for (file, text) in texts {
        let Some(from) = place(file) else {
            wrong.push(format!("the folder of {file} is missing from the list"));
            continue;
        };
        for used in named(file, text) {
            match place(&used).filter(|_| texts.contains_key(&used)) {
                None => wrong.push(format!("{file} imports {used}, which does not exist")),
                Some(to) if to < from => {
                    wrong.push(format!("{file} imports {used} from a folder above its own"));
                }
                Some(_) => {}
            }
        }
    }
    wrong
}

/// The files that import themselves through other files.
fn cycles(texts: &Texts) -> Vec<String> {
    let imports: BTreeMap<&String, Vec<String>> =
        texts.iter().map(|(file, text)| (file, named(file, text))).collect();
    let reaches_itself = |start: &&String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*start]);
        while let Some(file) = open.pop() {
            for used in imports.get(file).into_iter().flatten() {
                if used == *start {
                    return true;
                }
                if seen.insert(used) {
                    open.push(used);
                }
            }
        }
        false
    };
    texts.keys().filter(reaches_itself).cloned().collect()
}

#[test]
fn node_modules_call_only_lower_modules() {
    let wrong = wrong(RUST, &modules(&root().join("bindings-node/src")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(split_folders(RUST), Vec::<String>::new());
}

#[test]
fn typescript_folders_use_only_lower_folders() {
    let source = root().join("bindings-node/ts");
    let mut texts = Texts::new();
    for path in files(&source, &[".ts"]) {
        let name = path.strip_prefix(&source).unwrap().to_str().unwrap();
        let name = name.trim_end_matches(".ts").replace('\\', "/");
        texts.insert(name, fs::read_to_string(&path).unwrap());
    }
    texts.retain(|name, _| name != "native.d");
    let wrong = wrong_folders(FOLDERS, &texts);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(cycles(&texts), Vec::<String>::new());
}

#[test]
fn architecture_page_shows_the_node_order() {
    for (folder, order) in [("bindings-node/src", RUST), ("bindings-node/ts", FOLDERS)] {
        assert_eq!(
            documented(folder),
            order,
            "docs/contributing/architecture.md and the list disagree"
        );
    }
}

#[test]
fn finds_every_form_of_upward_typescript_import() {
    let made_up = |lower: &str| -> Texts {
        let texts = [
            ("index", "export { a } from \"./high/a.js\";\n"),
            ("high/a", "import { b } from \"../low/b.js\";\n"),
            ("low/b", lower),
            ("low/c", ""),
        ];
        texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    };
    let order = [".", "high", "low"];
    let fine = "import { setTimeout } from \"node:timers\";\nimport { n } from \"../native.js\";\n\
                import { c } from \"./c.js\";\n";
    assert_eq!(wrong_folders(&order, &made_up(fine)), Vec::<String>::new());
    for up in [
        "import { a } from \"../high/a.js\";\n",
        "import {\n  a,\n} from \"../high/a.js\";\n",
        "import type { A } from \"../high/a.js\";\n",
        "export * from \"../high/a.js\";\n",
        "export { a } from \"../index.js\";\n",
        "const a = await import(\"../high/a.js\");\n",
        "const a = require(\"../high/a.js\");\n",
    ] {
        assert_eq!(wrong_folders(&order, &made_up(up)).len(), 1, "{up}");
        assert!(cycles(&made_up(up)).contains(&"low/b".to_owned()), "{up}");
    }
    // A file that passes on a name from above is wrong itself, whichever file then uses the name.
    let mut through = made_up(fine);
    through.insert("low/c".to_owned(), "export { a } from \"../high/a.js\";\n".to_owned());
    assert_eq!(
        wrong_folders(&order, &through),
        ["low/c imports high/a from a folder above its own"]
    );
    let missing = wrong_folders(&order, &made_up("import { d } from \"./d.js\";\n"));
    assert_eq!(missing, ["low/b imports low/d, which does not exist"]);
    assert_eq!(wrong_folders(&[".", "high"], &made_up(fine)).len(), 3);
    let more = wrong_folders(&[".", "high", "low", "more"], &made_up(fine));
    assert_eq!(more, ["the folder more does not exist"]);
}
