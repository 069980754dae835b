//! The crate's public API as a committed list. A change to it shows what a user of the crate would have to change.
//! `UPDATE_API=1` rewrites the list.
//!
//! It reads the formatted source: the exports of `lib.rs`, and the public items and traits of each export.

use std::collections::BTreeSet;
use std::fs;

use crate::tidy::{files, root};

const LIST: &str = "tests/vectors/api.txt";

/// Joins several lines into one.
fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    text.replace("( ", "(").replace(", )", ")").replace(" .", ".")
}

/// The exports of `lib.rs`, without those for the bindings.
fn exported() -> BTreeSet<String> {
    let library = fs::read_to_string(root().join("core/src/lib.rs")).unwrap();
    let uses = library.lines().filter(|line| line.starts_with("pub use "));
    let names = uses.flat_map(|line| line.rsplit("::").next().unwrap().split(['{', '}', ',', ';']));
    let names = names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    // `clock` and `testing` are public modules.
    names
        .chain(
            ["Clock", "Instant", "Sleep", "SystemClock", "TestClock", "TestRedlock"]
                .map(Into::into),
        )
        .collect()
}

/// The name of the type, without its generic parameters.
fn named(text: &str) -> &str {
    text.split([' ', '<', '(', '{', ';', ':', '=']).next().unwrap_or(text)
}

/// The exported type that this top-level block or item belongs to.
fn owner<'a>(head: &'a str, exported: &BTreeSet<String>) -> Option<&'a str> {
    let head = head.strip_prefix("pub ").unwrap_or(head);
    let (kind, rest) = head.split_once([' ', '<'])?;
    let name = match kind {
        "impl" => {
            let of = rest.rsplit_once(" for ").map_or(rest, |(_, of)| of).trim_start_matches('&');
            of.rsplit("> ").next().unwrap_or(of)
        }
        "struct" | "enum" | "trait" | "const" | "type" => rest,
        _ => return None,
    };
    let name = named(name);
    exported.contains(name).then_some(name)
}

/// A public item of a block, from its first line to the start of its body.
fn item(lines: &[&str], all: bool) -> Option<String> {
    let first =
        lines[0].strip_prefix("    ").filter(|line| !line.starts_with([' ', '/', '#', '}']))?;
    if !all && !first.starts_with("pub ") || first.starts_with("pub(") {
        return None;
    }
    let ends = |line: &&str| line.ends_with(['{', ';', ',', '}']) && !line.ends_with("(,");
    let deep = |line: &str| line.len() - line.trim_start().len();
    let last = lines.iter().position(|line| deep(line) == 4 && ends(line))?;
    Some(joined(lines[..=last].iter().copied()).trim_end_matches(['{', ',', ';']).trim().to_owned())
}

/// Adds the exported items of one file.
fn of_file(text: &str, exported: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        // The body of this macro contains the methods of a lease's handle unchanged.
        let handle = *line == "as_its_handle! {";
        let of = if handle { Some("Lease") } else { owner(line, exported) };
        let Some(of) = of else { continue };
        // The private fields of a tuple are not part of the API.
        let private = line.starts_with("pub struct") && !line.contains("(pub ");
        let head = if private { line.split('(').next().unwrap() } else { line };
        if line.starts_with("pub ") || line.contains(" for ") {
            let before = lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/']));
            let head_lines = before.filter(|line| {
                ["#[derive", "#[non_exhaustive", "#[must_use"]
                    .iter()
                    .any(|word| line.starts_with(word))
            });
            let head_lines: String = head_lines.flat_map(|line| [*line, " "]).collect();
            found.insert(format!("{of}: {head_lines}{}", head.trim_end_matches(['{', ';']).trim()));
        }
        if !line.ends_with('{') || line.contains(" for ") {
            continue;
        }
        let all = handle || line.starts_with("pub enum") || line.starts_with("pub trait");
        let end = lines[at..].iter().position(|line| *line == "}").unwrap() + at;
        for start in at + 1..end {
            found.extend(item(&lines[start..end], all).map(|item| format!("{of}: {item}")));
        }
    }
}

#[test]
fn public_api_matches_the_committed_list() {
    let (exported, mut found) = (exported(), BTreeSet::new());
    for path in files(&root().join("core/src"), &[".rs"]) {
        if !path.components().any(|part| part.as_os_str() == "ffi") {
            of_file(&fs::read_to_string(&path).unwrap(), &exported, &mut found);
        }
    }
    let now = found.into_iter().collect::<Vec<_>>().join("\n") + "\n";
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(root().join(LIST), &now).unwrap();
    }
    let committed = fs::read_to_string(root().join(LIST)).unwrap_or_default();
    let differs = |of: &str, other: &str| {
        let other: BTreeSet<&str> = other.lines().collect();
        let new = of.lines().filter(|line| !other.contains(line));
        new.flat_map(|line| ["\n  ", line]).collect::<String>()
    };
    assert!(
        now == committed,
        "the crate's interface differs from {LIST}; if that is intended, UPDATE_API=1 regenerates the list, and CHANGELOG.md \
         says it.\nnew:{}\ngone:{}",
        differs(&now, &committed),
        differs(&committed, &now)
    );
}

#[test]
fn reads_items_from_rustdoc_text() {
    let text = concat!(
        "/// Doc.\n#[derive(Clone)]\npub struct Lock {\n    pub name: String,\n    secret: u8,\n}\n\n",
        "impl Lock {\n    /// Doc.\n    pub fn ask<W>(\n        &self,\n        wait: W,\n    ) -> u8\n",
        "    where\n        W: Copy,\n    {\n        1\n    }\n\n    pub(crate) fn hidden(&self) {}\n}\n\n",
        "impl Drop for Lock {\n    fn drop(&mut self) {}\n}\n",
    );
    let mut found = BTreeSet::new();
    of_file(text, &BTreeSet::from(["Lock".to_owned()]), &mut found);
    let expected = [
        "Lock: #[derive(Clone)] pub struct Lock",
        "Lock: impl Drop for Lock",
        "Lock: pub fn ask<W>(&self, wait: W) -> u8 where W: Copy,",
        "Lock: pub name: String",
    ];
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
}
