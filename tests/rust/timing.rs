//! Finds tests of the first tier that sleep or assert an upper bound on a duration. They depend on luck on a busy
//! machine.

use std::fs;
use std::path::PathBuf;

use crate::tidy::{files, root};

/// The uses that `tests/timing.toml` permits.
#[derive(serde::Deserialize)]
struct Timing {
    #[serde(default)]
    allowed: Vec<Allowed>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    file: String,
    /// The outermost function or test that contains the uses, or `*` for the whole file.
    test: String,
    count: usize,
    reason: String,
}

/// The names of calls that wait for time. A file may import Node's timer under another name.
fn waits(text: &str) -> Vec<String> {
    let alias = text.split("setTimeout as ").nth(1).and_then(|rest| rest.split([' ', ',']).next());
    let names = ["sleep", "setTimeout"].into_iter().chain(alias);
    names.map(|name| format!("{name}(")).collect()
}

/// Whether a line sleeps, or compares a measured duration with an upper bound.
fn waits_for_time(line: &str, waits: &[String]) -> bool {
    if ["//", "#", "*"].iter().any(|comment| line.trim_start().starts_with(comment)) {
        return false;
    }
    let whole =
        |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let sleeps = waits.iter().any(|call| {
        line.match_indices(call.as_str()).any(|(at, _)| {
            let defined =
                ["fn ", "def ", "function "].iter().any(|word| line[..at].ends_with(word));
            // A turn of the event loop does not wait for time.
            whole(at) && !defined && !line[at + call.len()..].starts_with("0)")
        })
    });
    let clocks = ["elapsed", "took", "monotonic()", "perf_counter()", "performance.now()"];
    let mut bounds = [" < ", " <= "].iter().filter_map(|sign| line.split_once(sign));
    // A loop until a deadline fails no test.
    let loops = line.trim_start().starts_with("while ");
    sleeps
        || !loops
            && bounds.any(|(left, _)| {
                clocks.iter().chain(&["Instant::now()"]).any(|clock| left.contains(clock))
            })
}

/// The name of the function or test that begins in this line.
fn begins(line: &str, next: &str) -> Option<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|each| each.is_alphanumeric() || *each == '_').collect()
    };
    for keyword in ["fn ", "def ", "function ", "function* "] {
        let found = line
            .strip_prefix(keyword)
            .or(line.split_once(&format!(" {keyword}")).map(|(_, rest)| rest));
        let name = found.map(word).filter(|name| !name.is_empty());
        if name.is_some() {
            return name;
        }
    }
    if line.contains("=>") && (line.starts_with("const ") || line.starts_with("export const ")) {
        return line.split("const ").nth(1).map(word);
    }
    let call = line.split('(').next().unwrap_or_default();
    let tests = ["test", "it", "slow", "test.skip", "test.only", "timed"].contains(&call);
    let named = if line.ends_with('(') { next.trim() } else { line };
    // The reason of a slow test precedes its name, and slow tests are not listed.
    tests.then(|| named.split(['"', '`', '\'']).nth(1).unwrap_or_default().to_owned())
}

/// The uses of time in a file of the first tier: the enclosing function or test, and the line.
fn uses_of_time(text: &str) -> Vec<(String, usize)> {
    let slow_module = |line: &str| line.starts_with("pytestmark") && line.contains("mark.slow");
    if text.lines().any(slow_module) {
        return Vec::new();
    }
    let (waits, lines) = (waits(text), text.lines().collect::<Vec<_>>());
    // Indentation, name, and whether the test is in the slow tier or uses a paused clock.
    let mut around: Vec<(usize, String, bool)> = Vec::new();
    let (mut uses, mut exempt) = (Vec::new(), false);
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let depth = line.len() - code.len();
        if code.is_empty() || code.starts_with(')') && !code.starts_with(");") {
            continue;
        }
        around.retain(|(outer, ..)| *outer < depth);
        exempt |= code.starts_with("@pytest.mark.slow") || code.contains("start_paused = true)]");
        if let Some(name) = begins(code, lines.get(at + 1).unwrap_or(&"")) {
            let slow = std::mem::take(&mut exempt) || code.starts_with("slow(");
            around.push((depth, name, slow));
        }
        if waits_for_time(code, &waits) && !around.iter().any(|(.., slow)| *slow) {
            let name = around.first().map_or("", |(_, name, _)| name.as_str());
            uses.push((name.to_owned(), at + 1));
        }
    }
    uses
}

/// The tests of `make test` and their helpers. Programs that tests start are excluded, unless they are listed.
fn first_tier(listed: &[Allowed]) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["tests/rust", "tests/models", "core/src", "core/tests"] {
        paths.extend(files(&root().join(folder), &[".rs"]));
    }
    let folders = ["python", "python/replay", "cross", "node", ""];
    for folder in folders.map(|folder| root().join("tests").join(folder)) {
        let here = |path: &PathBuf| path.parent() == Some(folder.as_path());
        let endings = [".py", ".mjs", ".cjs", ".js", ".ts"];
        paths.extend(files(&folder, &endings).into_iter().filter(here));
    }
    // Every listed file is checked too.
    paths.extend(listed.iter().map(|one| root().join(&one.file)));
    paths.sort();
    paths.dedup();
    let read = paths.into_iter().filter(|path| path.exists()).filter_map(|path| {
        let shown = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&path).unwrap();
        // Line numbers do not change.
        let tests = |text: &str| {
            let at = text.find("#[cfg(test)]\nmod tests {")?;
            Some("\n".repeat(text[..at].matches('\n').count()) + &text[at..])
        };
        let slow = shown.starts_with("tests/rust/slow") || shown.ends_with("/timing.rs");
        let product = shown.starts_with("core/src") && !shown.contains("/tests");
        let text = if product { tests(&text)? } else { text };
        (!slow).then_some((shown, text))
    });
    read.collect()
}

#[test]
fn first_tier_does_not_wait_for_time() {
    let text = fs::read_to_string(root().join("tests/timing.toml")).unwrap();
    let allowed = toml::from_str::<Timing>(&text).unwrap().allowed;
    let mut wrong: Vec<String> = Vec::new();
    let mut counts = vec![0; allowed.len()];
    for (file, text) in first_tier(&allowed) {
        for (name, line) in uses_of_time(&text) {
            let of = |one: &Allowed| one.file == file && (one.test == "*" || one.test == name);
            match allowed.iter().position(of) {
                Some(at) => counts[at] += 1,
                None => wrong.push(format!("{file}:{line}: {name} waits for time")),
            }
        }
    }
    for (one, count) in allowed.iter().zip(counts) {
        let Allowed { file, test, .. } = one;
        if count != one.count {
            wrong
                .push(format!("{file}: {test}: {count} uses, tests/timing.toml has {}", one.count));
        }
        if one.reason.trim().is_empty() {
            wrong.push(format!("{file}: {test}: without a reason"));
        }
    }
    assert!(
        wrong.is_empty(),
        "Wait for an event (`eventually`), use a test clock, move the test to the slow tier, or list it in \
         tests/timing.toml with its reason:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn finds_each_use_of_time_and_its_test() {
    let rust = "#[test]\nfn one() {\n    thread::sleep(a);\n    assert!(begun.elapsed() < b);\n}\n";
    assert_eq!(uses_of_time(rust), [("one".into(), 3), ("one".into(), 4)]);
    let paused = "#[tokio::test(start_paused = true)]\nasync fn one() {\n    sleep(a).await;\n}\n";
    assert_eq!(uses_of_time(paused), []);
    let python = "@pytest.mark.slow(\"why\")\ndef test_a():\n    time.sleep(1)\n\n\nasync def test_b(\n    x: int,\n) -> None:\n    await asyncio.sleep(0)\n    await asyncio.sleep(1)\n    assert time.monotonic() - begun < 2\n";
    assert_eq!(uses_of_time(python), [("test_b".into(), 10), ("test_b".into(), 11)]);
    let node = "import { setTimeout as delay } from \"node:timers/promises\";\nslow(\"why\", \"a\", async () => {\n  await delay(1);\n});\ntest(\"b\", async () => {\n  await delay(1);\n});\n";
    assert_eq!(uses_of_time(node), [("b".into(), 6)]);
}
