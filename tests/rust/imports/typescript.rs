//! Reads which files of TypeScript a file names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{File, Files};
use crate::tidy::files;

/// It is generated, and every folder may use it. Its imports are in Rust.
const NATIVE: &str = "native";

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

fn file(name: &str, text: &str) -> (String, File) {
    (name.to_owned(), File { folder: folder(name).to_owned(), used: named(name, text) })
}

/// The files with their folders.
pub(super) fn read(source: &Path) -> Files {
    let name = |path: &Path| {
        let name = path.strip_prefix(source).unwrap().to_str().unwrap();
        name.trim_end_matches(".ts").replace('\\', "/")
    };
    let read = |path: &std::path::PathBuf| file(&name(path), &fs::read_to_string(path).unwrap());
    let mut files: Files = files(source, &[".ts"]).iter().map(read).collect();
    files.remove("native.d");
    files
}

/// The files that import themselves through other files.
pub(super) fn cycles(files: &Files) -> Vec<String> {
    let reaches_itself = |start: &&String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*start]);
        while let Some(file) = open.pop() {
            for used in files.get(file).into_iter().flat_map(|file| &file.used) {
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
    files.keys().filter(reaches_itself).cloned().collect()
}

#[test]
fn finds_every_form_of_upward_import() {
    let read = |lower: &str, other: &str| -> Files {
        let texts = [
            ("index", "export { a } from \"./high/a.js\";\n"),
            ("high/a", "import { b } from \"../low/b.js\";\n"),
            ("low/b", lower),
            ("low/c", other),
        ];
        texts.into_iter().map(|(name, text)| file(name, text)).collect()
    };
    let wrong = |files: &Files| super::wrong(&[".", "high", "low"], files);
    let fine = "import { setTimeout } from \"node:timers\";\nimport { n } from \"../native.js\";\n\
                import { c } from \"./c.js\";\n";
    assert_eq!(wrong(&read(fine, "")), Vec::<String>::new());
    for up in [
        "import { a } from \"../high/a.js\";\n",
        "import {\n  a,\n} from \"../high/a.js\";\n",
        "import type { A } from \"../high/a.js\";\n",
        "export * from \"../high/a.js\";\n",
        "export { a } from \"../index.js\";\n",
        "const a = await import(\"../high/a.js\");\n",
        "const a = require(\"../high/a.js\");\n",
    ] {
        assert_eq!(wrong(&read(up, "")).len(), 1, "{up}");
        assert!(cycles(&read(up, "")).contains(&"low/b".to_owned()), "{up}");
    }
    // A file that passes on a name from above is wrong itself, whichever file then uses the name.
    let through = read(fine, "export { a } from \"../high/a.js\";\n");
    assert_eq!(wrong(&through), ["low/c (low) uses high/a (high), which is above it"]);
    let missing = wrong(&read("import { d } from \"./d.js\";\n", ""));
    assert_eq!(missing, ["low/b uses low/d, which does not exist"]);
}
