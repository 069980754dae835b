//! Reads which files of the Python package a file imports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{File, Files};
use crate::tidy::files;

/// The Rust part, which Python files import too.
const NATIVE: &str = "_native";

/// The files of the package that one of them imports.
fn imported(text: &str) -> Vec<String> {
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
        found.extend(names.into_iter().map(name));
    }
    found
}

/// The files of the package with these names and texts. Each counts as a folder. A name that is no file is a public
/// name of the package.
fn package(texts: &BTreeMap<String, String>) -> Files {
    let file = |name: String| if texts.contains_key(&name) { name } else { "__init__".to_owned() };
    let read = |(name, text): (&String, &String)| {
        let used = imported(text).into_iter().map(file).collect();
        (name.clone(), File { folder: name.clone(), used })
    };
    texts.iter().map(read).collect()
}

pub(super) fn read(source: &Path) -> Files {
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    let native = (NATIVE.to_owned(), String::new());
    package(&files(source, &[".py"]).iter().map(read).chain([native]).collect())
}

#[test]
fn finds_every_form_of_upward_import() {
    let wrong = |lower: &str| {
        let texts = [("__init__", "from redlock.b import f\n"), ("b", lower), (NATIVE, "")];
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        super::wrong(&["__init__", "b", NATIVE], &package(&texts.into()))
    };
    let fine = "import asyncio\nfrom redlock import _native\nfrom redlock._native import Lock\n";
    assert_eq!(wrong(fine), Vec::<String>::new());
    for up in [
        "from redlock.__init__ import f\n",
        "from redlock import _native, Redlock as _Redlock\n",
        "import redlock.__init__\n",
        "def f():\n    from redlock import g\n",
    ] {
        assert_eq!(wrong(up), ["b (b) uses __init__ (__init__), which is above it"], "{up}");
    }
}
