//! Rules for the source tree that no compiler checks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let skipped = ["node_modules", "dist", "npm", "__pycache__", ".venv"];
        if path.is_dir() && !skipped.contains(&&*name) {
            found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found
}

fn mentions(folder: &str, word: &str, allowed: &[&str]) {
    for path in files(&root().join(folder), &[".rs"]) {
        let shown = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        // Unit tests may use anything.
        if shown.contains("/tests") || allowed.iter().any(|place| shown.contains(place)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let hit = code.clone().any(|line| line.contains(word));
        assert!(!hit, "{shown} mentions {word}");
    }
}

#[test]
fn each_dependency_is_used_only_where_allowed() {
    mentions("core/src", "redis::", &["core/src/node/"]);
    mentions(
        "core/src",
        "spawn(",
        &[
            "drivers/tokio_runtime.rs",
            "runtime/background.rs",
            "runtime/environment.rs",
            "telemetry/log.rs",
            "telemetry/metrics.rs",
            "runtime/machine.rs",
            "engine/running.rs",
            "client/shutdown.rs",
            "clock/stepping.rs",
            "ffi/driver.rs",
            "node/redis/io/lookup.rs",
            "node/redis/server/mod.rs",
            "node/redis/cluster/mod.rs",
            "node/callback.rs",
            "node/redis/sentinel/mod.rs",
        ],
    );
    // A subscriber is called only on the log thread.
    mentions("core/src", "tracing::", &["telemetry/log.rs"]);
    // A recorder is likewise called only on a separate thread.
    mentions("core/src", "use metrics::", &["telemetry/metrics.rs"]);
    mentions("core/src", "Instant::now", &["runtime/mod.rs", "runtime/machine.rs"]);
    mentions("core/src", "SystemTime", &["clock/mod.rs"]);
    // A module is where its name says.
    mentions("core/src", "path = \"", &[]);
    mentions("bindings-python/src", "detach(py", &["runtime"]);
    mentions("bindings-node/src", "ThreadsafeFunction", &["wake"]);
    // Looked up at run time, because not every runtime has them.
    mentions("bindings-node/src", "uv_", &["runtime/libuv", "runtime/descriptor"]);
}

#[test]
fn files_are_short() {
    // A file has one task, which rarely takes more lines than this.
    let folders =
        ["core/src", "cli", "bindings-python", "bindings-node"].map(|sources| (sources, 400));
    for (folder, most) in folders.into_iter().chain([("tests", 500)]) {
        for path in files(&root().join(folder), &[".rs", ".py", ".ts", ".lua"]) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            let generated = name == "native.d.ts";
            assert!(generated || lines <= most, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn comments_are_wrapped() {
    // Formatted code has at most 120 columns, but rustfmt leaves comments as they are. A row of a table cannot be
    // wrapped.
    for folder in ["core", "cli", "bindings-python/src", "bindings-node/src", "tests", "examples"] {
        for path in files(&root().join(folder), &[".rs"]) {
            for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
                let text = line.trim_start();
                let is_wrapped = line.chars().count() <= 120
                    || text.starts_with("//! | ")
                    || !text.starts_with("//");
                assert!(is_wrapped, "{}:{} has more than 120 columns", path.display(), number + 1);
            }
        }
    }
}

/// The longest function, from its `fn` to its closing brace. In formatted code both have the same indentation.
fn longest_function(text: &str) -> Option<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let before = ["pub", "const", "async", "unsafe", "extern"];
    let begins = |line: &str| {
        let mut words = line.split_whitespace();
        let is_qualifier =
            |word: &&str| before.iter().any(|known| word.starts_with(known)) || *word == "\"C\"";
        words.find(|word| !is_qualifier(word)) == Some("fn")
    };
    let starts = lines.iter().enumerate().filter(|(_, line)| begins(line) && !line.ends_with(';'));
    starts
        .filter_map(|(at, line)| {
            let closes = |end: &&str| **end == format!("{}}}", " ".repeat(depth(line)));
            let length = lines[at..].iter().position(closes)? + 1;
            Some((length, line.trim().to_owned()))
        })
        .max()
}

#[test]
fn functions_are_short() {
    for folder in ["core/src", "cli/src", "bindings-node/src", "bindings-python/src"] {
        let is_test = |path: &PathBuf| path.to_string_lossy().contains("src/tests/");
        for path in files(&root().join(folder), &[".rs"]).into_iter().filter(|path| !is_test(path))
        {
            let text = fs::read_to_string(&path).unwrap();
            let Some((length, name)) = longest_function(&text) else { continue };
            assert!(length <= 50, "{}: {name} has {length} lines", path.display());
        }
    }
    let long = format!("impl A {{\n    fn long() {{\n{}    }}\n}}\n", "        a();\n".repeat(49));
    assert_eq!(longest_function(&long), Some((51, "fn long() {".to_owned())));
}

/// A verb without an object is found everywhere, so a search for such a function finds nothing.
#[test]
fn functions_have_names_that_can_be_searched() {
    const BARE: [&str; 12] = [
        "ask", "begin", "end", "give", "keep", "look", "note", "of", "over", "read", "say", "tell",
    ];
    // The names of the standard library, and `RwLock::read` as users expect it.
    let known = ["fn read(&mut self, into: &mut [u8])", "fn read(&self, into: &mut [u8])"];
    let public = "pub fn read(&self) -> Lock {";
    for folder in ["core/src", "cli/src", "bindings-node/src", "bindings-python/src"] {
        for path in files(&root().join(folder), &[".rs"]) {
            for line in fs::read_to_string(&path).unwrap().lines().map(str::trim) {
                let name =
                    line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
                let bare = name.is_some_and(|name| BARE.contains(&name)) && !line.starts_with("//");
                let allowed = line == public || known.iter().any(|known| line.contains(known));
                assert!(!bare || allowed, "{}: name what {line} does it to", path.display());
            }
        }
    }
}

#[test]
fn constants_have_one_meaning() {
    let mut found = BTreeMap::<String, PathBuf>::new();
    for folder in ["core/src", "cli/src", "bindings-node/src", "bindings-python/src"] {
        let is_test = |path: &PathBuf| path.to_string_lossy().contains("tests");
        for path in files(&root().join(folder), &[".rs"]).into_iter().filter(|path| !is_test(path))
        {
            let text = fs::read_to_string(&path).unwrap();
            // Without indentation: those of modules, and not of tests or types.
            for line in text.lines().filter(|line| line.contains(": ")) {
                let mut words = line.split(' ').skip_while(|word| word.starts_with("pub"));
                let Some("const" | "static") = words.next() else { continue };
                let Some(name) = words.next().and_then(|word| word.strip_suffix(':')) else {
                    continue;
                };
                let name = name.to_owned();
                let before = found.insert(name.clone(), path.clone());
                let shown = path.display();
                assert!(before.is_none(), "{name} is in {shown} and {}", before.unwrap().display());
            }
        }
    }
    assert!(found.len() > 100, "{}", found.len());
}

#[test]
fn version_is_the_same_everywhere() {
    let package = fs::read_to_string(root().join("package.json")).unwrap();
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(package.contains(&version), "package.json and Cargo.toml disagree");
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    // `scripts/release` gives the unreleased changes their version.
    let heading = format!("## {}", env!("CARGO_PKG_VERSION"));
    assert!(
        changelog.contains("## Unreleased") || changelog.contains(&heading),
        "CHANGELOG.md has neither unreleased changes nor this version"
    );
}

/// Not every system has links, and `cargo package` would copy their targets.
#[test]
fn crate_has_no_links_and_the_same_licenses() {
    let core = root().join("core").canonicalize().unwrap();
    let linked = |path: &PathBuf| path.canonicalize().unwrap() != *path;
    assert_eq!(files(&core, &[""]).into_iter().find(linked), None);
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let [here, packaged] = ["", "core"].map(|folder| fs::read(root().join(folder).join(name)));
        assert_eq!(here.unwrap(), packaged.unwrap(), "copy {name} into core/");
    }
}

#[derive(serde::Deserialize)]
struct Mutants {
    mutant: Vec<Edit>,
}

#[derive(serde::Deserialize)]
struct Edit {
    rule: Option<String>,
    file: String,
    find: String,
    also: Option<Box<Edit>>,
    test: Option<String>,
    unit: Option<String>,
    suite: Option<String>,
    model: Option<String>,
    allocations: Option<String>,
}

impl Edit {
    /// The tests that it names, each with the first file of its crate. `test` is one of the simulation.
    fn named_tests(&self) -> impl Iterator<Item = (&'static str, String)> {
        let test = self.test.as_ref().map(|name| format!("tests::simulation::{name}"));
        let kinds = [
            ("core/src/lib.rs", &test),
            ("core/src/lib.rs", &self.unit),
            ("tests/rust/main.rs", &self.suite),
            ("tests/models/lib.rs", &self.model),
            ("tests/rust/allocations.rs", &self.allocations),
        ];
        let named = |(file, name): (_, &Option<String>)| Some((file, name.clone()?));
        kinds.map(named).into_iter().flatten()
    }
}

/// Whether a crate has this test. cargo runs none for a name that does not exist, and reports no error.
fn has_test(file: &str, test: &str) -> bool {
    let file = root().join(file);
    let (mut folder, mut source) =
        (file.parent().unwrap().to_owned(), fs::read_to_string(&file).unwrap());
    let mut names: Vec<&str> = test.split("::").collect();
    let function = names.pop().unwrap();
    for name in names {
        folder.push(name);
        let files = [folder.with_extension("rs"), folder.join("mod.rs")];
        source = match files.iter().find(|file| file.exists()) {
            Some(file) => fs::read_to_string(file).unwrap(),
            None => match source.split_once(&format!("mod {name} {{")) {
                Some((_, inside)) => inside.to_owned(),
                None => return false,
            },
        };
    }
    let function = format!("fn {function}(");
    let mut before =
        source.lines().take_while(|line| !line.contains(&function)).collect::<Vec<_>>();
    let is_there = before.len() < source.lines().count();
    let attributes =
        std::iter::from_fn(|| before.pop().filter(|line| line.trim().starts_with("#[")));
    is_there && attributes.into_iter().any(|line| line.contains("test]") || line.contains("test("))
}

#[test]
fn test_of_a_mutant_is_found_by_its_name() {
    let own = "tidy::test_of_a_mutant_is_found_by_its_name";
    assert!(has_test("tests/rust/main.rs", own));
    let inside = "node::label::tests::finds_the_label_of_a_token";
    assert!(has_test("core/src/lib.rs", inside));
    for wrong in
        ["tidy::has_test", "tidy::tests::files_are_short", "urls::files_are_short", "no::test"]
    {
        assert!(!has_test("tests/rust/main.rs", wrong), "{wrong}");
    }
}

#[test]
fn every_mutant_matches_the_source() {
    let text = fs::read_to_string(root().join("tests/mutants.toml")).unwrap();
    for mutant in toml::from_str::<Mutants>(&text).unwrap().mutant {
        for edit in [Some(&mutant), mutant.also.as_deref()].into_iter().flatten() {
            let source = fs::read_to_string(root().join(&edit.file)).unwrap();
            assert_eq!(source.matches(&edit.find).count(), 1, "{:?} in {}", mutant.rule, edit.file);
        }
        for (file, test) in mutant.named_tests() {
            assert!(has_test(file, &test), "{:?}: {test} does not exist", mutant.rule);
        }
    }
}

/// The parts that the first column of the regressions names.
const PARTS: [&str; 7] = ["core", "Python", "Node.js", "all", "packages", "docs", "frameworks"];

/// Errors in a row of the regressions: an unknown part, no file, or files and tests that do not exist. `read` returns
/// the texts of the files with a name.
fn wrong_row(row: &str, read: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
    let (part, tests) = (cells[0], cells[cells.len() - 1]);
    let mut wrong = Vec::new();
    if !PARTS.contains(&part) {
        wrong.push(format!("{part} is not a part"));
    }
    let endings = [".rs", ".py", ".mjs", ".toml", ".txt", ".md"];
    let mut read_texts = None;
    for word in tests.split('`').skip(1).step_by(2) {
        let (file, test) =
            word.split_once("::").map_or((word, None), |(file, test)| (file, Some(test)));
        let is_file = !file.contains(' ') && endings.iter().any(|ending| file.ends_with(ending));
        if is_file {
            let found = read(file);
            if found.is_empty() {
                wrong.push(format!("{file} does not exist"));
            }
            read_texts = Some(found);
        }
        let test = if is_file { test } else { Some(word) };
        // Commands, keys and fields are not tests.
        let is_test = |test: &&str| {
            let words = test.split(['_', ' ']).count();
            words > 2 && !test.contains(['[', '/', '=']) && !test.starts_with("make ")
        };
        let test = test.map(|test| test.split('[').next().unwrap_or_default());
        if let (Some(test), Some(texts)) = (test.filter(is_test), &read_texts)
            && !texts.iter().any(|text| text.contains(test))
        {
            wrong.push(format!("the test {test} does not exist"));
        }
    }
    if read_texts.is_none() {
        wrong.push("no test is named".to_owned());
    }
    wrong
}

#[test]
fn tests_of_regressions_exist_in_their_files() {
    let page = fs::read_to_string(root().join("docs/contributing/regressions.md")).unwrap();
    let tests = files(&root().join("tests"), &[".rs", ".py", ".mjs", ".toml", ".txt"]);
    let read = |name: &str| {
        // A test of the slow tier has its folder in its path.
        let slow = name.replacen("rust/", "rust/slow/", 1);
        let ends = |path: &&PathBuf| path.ends_with(name) || path.ends_with(&slow);
        let found = tests.iter().filter(ends).cloned().chain([root().join(name)]);
        found.filter_map(|path| fs::read_to_string(path).ok()).collect()
    };
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 250, "only {} rows", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            wrong_row(row, read).into_iter().map(move |error| format!("{error}: {row}"))
        })
        .collect();
    assert!(wrong.is_empty(), "in docs/contributing/regressions.md, {}", wrong.join("\n"));
}

#[test]
fn finds_wrong_rows_of_regressions() {
    let read = |name: &str| match name {
        "a.rs" => vec!["fn does_a_thing() {}".to_owned()],
        "b.py" => vec!["def test_an_odd_thing() {}".to_owned()],
        _ => Vec::new(),
    };
    for fine in [
        "| core | broken | `a.rs`: `does_a_thing`. `make test-acl` |",
        "| all | `x_y_z_w` was \"a | b\" | `b.py::test_an_odd_thing[one]`, `[[lock]]` in `a.rs` |",
    ] {
        assert_eq!(wrong_row(fine, read), Vec::<String>::new(), "{fine}");
    }
    for wrong in [
        "| 1.2 | broken | `a.rs` |",
        "| core | broken | `c.rs` |",
        "| core | broken | `make test-acl` |",
        "| core | broken | `a.rs`: `does_another_thing` |",
        "| core | broken | `a.rs`: `does another thing` |",
        "| core | broken | `b.py::test_another_odd_thing` |",
    ] {
        assert_eq!(wrong_row(wrong, read).len(), 1, "{wrong}");
    }
}

/// If a process forks while another thread initialises or holds such a static, the child finds it locked forever.
#[test]
fn no_static_stays_locked_in_a_forked_child() {
    let locks = ["LazyLock<", "OnceLock<", ": Once ", "Mutex<"];
    let allowed = [
        // Set while the binding is loaded, and never initialised by a closure.
        ("core/src/telemetry/record.rs", "LISTENER"),
        // On platforms without fork.
        ("core/src/runtime/machine.rs", "START"),
        // Held with Python's GIL, without which no thread forks.
        ("bindings-python/src/source.rs", "KNOWN_RECIPES"),
        ("bindings-python/src/registry.rs", "HELD"),
        ("bindings-python/src/call_site.rs", "KNOWN_LINES"),
        ("bindings-python/src/owner.rs", "KNOWN_OWNERS"),
        ("bindings-python/src/runtime/exit.rs", "PENDING"),
        ("bindings-python/src/runtime/observe.rs", "OBSERVER"),
        ("bindings-python/src/runtime/event_loop.rs", "LOOP_SLOTS"),
    ];
    for path in
        ["core/src", "bindings-python/src"].map(|dir| files(&root().join(dir), &[".rs"])).concat()
    {
        let shown = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().map(str::trim_start) {
            let line = line
                .strip_prefix("pub(super) ")
                .or(line.strip_prefix("pub(crate) "))
                .unwrap_or(line);
            let Some((name, of)) =
                line.strip_prefix("static ").and_then(|rest| rest.split_once(':'))
            else {
                continue;
            };
            let of = format!(":{of}");
            let kept = of.starts_with(": PerProcess<") || allowed.contains(&(&*shown, name));
            let hit = !kept && locks.iter().any(|lock| of.contains(lock));
            assert!(!hit, "{shown}: {name}: use PerProcess, or once_cell's race, instead");
        }
    }
}

/// The text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start} is missing"));
    rest.split(end).next().unwrap_or(rest)
}

#[test]
fn table_names_the_tests_of_each_module() {
    let page = fs::read_to_string(root().join("tests/README.md")).unwrap();
    let table = between(&page, "## Tests of a module", "\n## ");
    let core = root().join("core/src");
    let mut modules = Vec::new();
    for path in files(&core, &[".rs"]) {
        let shown = path.strip_prefix(&core).unwrap().to_string_lossy().replace('\\', "/");
        let module =
            shown.rsplit_once('/').map_or(shown.clone(), |(folder, _)| format!("{folder}/"));
        if !shown.contains("tests") && !["lib.rs", "node/redis/commands/lua/"].contains(&&*module) {
            modules.push(module);
        }
    }
    modules.sort();
    modules.dedup();
    for module in modules {
        let row = format!("| `{module}`");
        let listed = table.contains(&row) || table.contains(&format!(", `{module}`"));
        assert!(listed, "tests/README.md does not say which tests assert {module}");
    }
    for name in table.split('`').skip(1).step_by(2) {
        let places = [root().join("tests").join(name), core.join(name), root().join(name)];
        let known = name.starts_with("tidy::") || places.iter().any(|place| place.exists());
        assert!(known, "tests/README.md names {name}, which does not exist");
    }
}

#[test]
fn help_lists_every_target() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let phony = makefile.lines().filter_map(|line| line.strip_prefix(".PHONY: "));
    for target in phony.flat_map(str::split_whitespace) {
        let rule = |line: &str| line.starts_with(&format!("{target}:")) && line.contains("## ");
        let listed = makefile.lines().any(|line| rule(&line.replace("##! ", "## ")));
        assert!(listed || target == "plan", "make help-all does not list {target}");
    }
}
