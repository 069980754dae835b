//! A folder uses only the folders below it. The test reads the imports of every source file, follows re-exports, and
//! has one list of the folders.
//!
//! `docs/contributing/architecture.md` shows the same list. An upward import is either a mistake or a reason to move
//! what is imported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::{files, root};

/// The core's folders, from top to bottom. A file of the crate's root is a folder of its own.
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
    "numbered",
    "keyed",
    "text",
];

/// Everything that one module names in its own crate, and its re-exports.
#[derive(Default)]
struct Imports {
    used: BTreeSet<Vec<String>>,
    /// By the local name.
    passed_on: BTreeMap<String, Vec<String>>,
}

/// The code without comments, string literals and test-only items.
fn code(text: &str) -> String {
    let plain = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut code, mut for_tests) = (String::new(), false);
    for line in plain.lines() {
        if std::mem::replace(&mut for_tests, line.trim() == "#[cfg(test)]") {
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
pub(crate) type Modules = BTreeMap<Vec<String>, String>;

pub(crate) fn modules(source: &Path) -> Modules {
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

/// Errors in the order: upward imports, modules missing in the list, and listed modules that do not exist.
pub(crate) fn wrong(order: &[&str], modules: &Modules) -> Vec<String> {
    let place = |module: &[String]| order.iter().position(|name| **name == module.join("::"));
    let read = |(name, text): (&Vec<String>, &String)| (name.clone(), imports(name, text));
    let all: BTreeMap<_, _> = modules.iter().map(read).collect();
    let mut wrong: Vec<String> = order
        .iter()
        .filter(|name| !all.keys().any(|module| module.join("::") == ***name))
        .map(|name| format!("{name} stands in the list and nowhere else"))
        .collect();
    for (module, imports) in &all {
        let name = module.join("::");
        let Some(from) = place(module) else {
            wrong.push(format!("{name} is missing from the list"));
            continue;
        };
        for path in &imports.used {
            let Some(used) = module_of(path, &all).filter(|used| used != module) else { continue };
            if place(&used).is_some_and(|to| to < from) {
                let used = used.join("::");
                wrong.push(format!(
                    "{name} imports {used}, which stands above it ({})",
                    path.join("::")
                ));
            }
        }
    }
    wrong
}

/// The folder of a module: itself if it has files below it, otherwise the one that it is in.
fn folder(module: &[String], modules: &Modules) -> String {
    let is_folder = |other: &Vec<String>| other.len() > module.len() && other.starts_with(module);
    let inside = if modules.keys().any(is_folder) { module.len() } else { module.len() - 1 };
    module[..inside.max(1)].join("::")
}

/// Errors in the order of folders: upward imports, folders missing in the list, and listed ones that do not exist.
fn wrong_folders(order: &[&str], modules: &Modules) -> Vec<String> {
    let place = |name: &str| order.iter().position(|folder| *folder == name);
    let all: BTreeMap<_, _> =
        modules.iter().map(|(name, text)| (name.clone(), imports(name, text))).collect();
    let existing: BTreeSet<String> = all.keys().map(|name| folder(name, modules)).collect();
    let unknown = existing.iter().filter(|name| place(name).is_none());
    let mut wrong: Vec<String> =
        unknown.map(|name| format!("{name} is missing from the list")).collect();
    let gone = order.iter().filter(|name| !existing.contains(**name));
    wrong.extend(gone.map(|name| format!("{name} stands in the list and nowhere else")));
    for (module, imports) in &all {
        let from = folder(module, modules);
        for path in &imports.used {
            let Some(used) = module_of(path, &all) else { continue };
            let to = folder(&used, modules);
            let (Some(low), Some(high)) = (place(&to), place(&from)) else { continue };
            if low < high {
                wrong.push(format!(
                    "{} in {from} imports from {to}, which stands above it ({})",
                    module.join("::"),
                    path.join("::")
                ));
            }
        }
    }
    wrong
}

#[test]
fn core_folders_use_only_lower_folders() {
    let wrong = wrong_folders(CORE, &modules(&root().join("core/src")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The modules of a folder in the order of `docs/contributing/architecture.md`.
pub(crate) fn documented(folder: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/contributing/architecture.md")).unwrap();
    let heading = format!("## Source layout of `{folder}`\n");
    let (_, section) = text.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn architecture_page_shows_the_same_order() {
    assert_eq!(
        documented("core/src"),
        CORE,
        "docs/contributing/architecture.md and the list disagree"
    );
}

#[test]
fn finds_every_form_of_upward_call() {
    let made_up = |texts: [(&str, &str); 5]| -> Modules {
        let path = |name: &str| name.split("::").map(str::to_owned).collect();
        texts.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect()
    };
    let fine = [
        ("client", "use crate::lock::{Lock, Names as Many};\n"),
        ("lock", "mod deep;\nuse std::fmt;\n"),
        ("lock::deep", "use super::super::node::{self, Node};\nuse redis::Cmd;\n"),
        ("node", "mod fault;\npub(crate) use fault::Fault;\n// use crate::lock::Lock;\n"),
        ("node::fault", "#[cfg(test)]\nmod tests {\n    use crate::client::Redlock;\n}\n"),
    ];
    let order = ["client", "lock", "lock::deep", "node", "node::fault"];
    assert_eq!(wrong(&order, &made_up(fine)), Vec::<String>::new());
    for (at, up) in [
        (4, "use crate::client::Redlock;\n"),
        (4, "use crate::{\n    error::Error,\n    lock::deep::Deep,\n};\n"),
        (4, "fn fault() {\n    crate::lock::lock();\n}\n"),
        (4, "use super::super::lock;\n"),
        (3, "mod fault;\npub(crate) use fault::Fault;\nuse crate::lock::deep;\n"),
        (2, "use super::Lock;\n"),
        (1, "fn lock() -> crate::client::Redlock;\n"),
    ] {
        let mut texts = fine;
        texts[at].1 = up;
        assert_eq!(wrong(&order, &made_up(texts)).len(), 1, "{up}");
    }
    // Through the re-exports of a folder.
    let mut texts = fine;
    texts[2].1 = "use crate::node::Fault;\n";
    let other = ["client", "lock", "node::fault", "lock::deep", "node"];
    assert_eq!(wrong(&other, &made_up(texts)).len(), 1);
    assert_eq!(wrong(&order[1..], &made_up(fine)), ["client is missing from the list"]);
    let more = [&order[..], &["more"]].concat();
    assert_eq!(wrong(&more, &made_up(fine)), ["more stands in the list and nowhere else"]);
}

#[test]
fn finds_upward_imports_between_folders() {
    let made_up = |texts: &[(&str, &str)]| -> Modules {
        let path = |name: &str| name.split("::").map(str::to_owned).collect();
        texts.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect()
    };
    let order = ["client", "node::redis", "node", "text"];
    let mut texts = vec![
        ("client", "use crate::node::Redis;\n"),
        ("node", "mod fault;\nmod redis;\npub(crate) use redis::Redis;\n"),
        ("node::fault", "use crate::text;\n"),
        ("node::redis", "mod io;\npub(crate) struct Redis;\nuse io::open;\n"),
        ("node::redis::io", "use crate::node::fault::Fault;\nuse super::Redis;\n"),
        ("text", ""),
    ];
    assert_eq!(wrong_folders(&order, &made_up(&texts)), Vec::<String>::new());
    // The file of a folder and the folder itself are one place, so is a re-export.
    for (at, up) in [
        (2, "use crate::client::Client;\n"),
        (2, "use super::Redis;\n"),
        (2, "use super::redis::io::open;\n"),
        (5, "fn text() {\n    crate::node::fault::fault();\n}\n"),
    ] {
        let kept = std::mem::replace(&mut texts[at].1, up);
        assert_eq!(wrong_folders(&order, &made_up(&texts)).len(), 1, "{up}");
        texts[at].1 = kept;
    }
    assert_eq!(
        wrong_folders(&["client", "node::redis", "node", "more"], &made_up(&texts)).len(),
        2
    );
}
