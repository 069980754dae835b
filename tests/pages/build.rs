//! Writes the Rust code blocks of each page in docs/ as the documentation of one item.
//!
//! The pages cannot be included directly. rustdoc takes the indented blocks of a content tab for Rust code, whatever
//! their language. A block with a file name belongs to a program in examples/, and `tests/cross/test_pages.py` compares
//! the two.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // Not the whole folder, which can contain a virtual environment.
    for entry in fs::read_dir(&docs).unwrap().flatten() {
        if entry.file_name() != ".venv" {
            println!("cargo::rerun-if-changed={}", entry.path().display());
        }
    }
    let mut found = pages(&docs);
    found.sort();
    let mut items = String::new();
    for page in found {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = blocks(&text);
        if blocks.is_empty() {
            continue;
        }
        let code = format!("```\n{}```\n", blocks.join("```\n\n```\n"));
        let name = page.strip_prefix(&docs).unwrap().with_extension("");
        let name = name.to_string_lossy().replace(|letter: char| !letter.is_alphanumeric(), "_");
        writeln!(items, "#[doc = {code:?}]\n#[allow(non_camel_case_types)]\npub struct {name};")
            .unwrap();
    }
    assert!(!items.is_empty(), "no page of {} has a Rust block", docs.display());
    fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("pages.rs"), items).unwrap();
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != ".venv" {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found
}

/// Returns the code of each block, without the indentation of its tab.
fn blocks(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim_start() != "```rust" {
            continue;
        }
        let depth = line.len() - line.trim_start().len();
        let mut code = String::new();
        for line in lines.by_ref().take_while(|line| line.trim_start() != "```") {
            code += line.get(depth..).unwrap_or_default();
            code.push('\n');
        }
        found.push(code);
    }
    found
}
