//! Finds tests of the first tier that sleep, assert an upper bound on a duration, or set a time limit below 2 s. They
//! depend on luck on a busy machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::tidy::{files, root};

/// The uses that `tests/timing.toml` permits.
#[derive(serde::Deserialize)]
struct Timing {
    #[serde(default)]
    allowed: Vec<Allowed>,
    /// How many limits below 2 s a file has.
    short: BTreeMap<String, usize>,
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

/// The options that end a call or a lease, in three languages.
const LIMITS: [&str; 6] =
    ["ttl", "wait", "node_timeout", "connect_timeout", "nodeTimeout", "connectTimeout"];
/// A shorter limit can end before a busy machine has done the work.
const MIN_LIMIT_MS: f64 = 2000.0;
/// A test with one of these words advances a clock, or has no server.
const STEADY: [&str; 5] = ["memory://", "TestClock", "testClock", "advance", "start_paused"];

/// The number of limits in a line that are below 2 s. Zero is not a limit, but means one attempt.
fn short_limits(line: &str) -> usize {
    let number = |text: &str| -> Option<f64> {
        let end = text.find(|each: char| !(each.is_ascii_digit() || "._".contains(each)));
        text[..end.unwrap_or(text.len())].replace('_', "").trim_end_matches('.').parse().ok()
    };
    let milliseconds = |after: &str| -> Option<f64> {
        if let Some(rust) = after.strip_prefix('(') {
            let call = ["ms(", "millis(", "Duration::from_millis("];
            return number(call.iter().find_map(|call| rust.strip_prefix(call))?);
        }
        if let Some(python) = after.strip_prefix('=') {
            return number(python).map(|seconds| seconds * 1000.0);
        }
        number(after.strip_prefix(": ")?)
    };
    let starts = LIMITS.iter().flat_map(|name| {
        line.match_indices(name).filter_map(|(at, _)| {
            let before = line[..at].chars().next_back().unwrap_or(' ');
            let whole = !before.is_alphanumeric() && before != '_';
            whole.then(|| &line[at + name.len()..])
        })
    });
    starts.filter_map(milliseconds).filter(|ms| *ms > 0.0 && *ms < MIN_LIMIT_MS).count()
}

/// The uses of time in a file of the first tier: the enclosing function or test, and the line.
fn uses_of_time(text: &str) -> Vec<(String, usize)> {
    let waits = waits(text);
    let uses = found(text, |line| usize::from(waits_for_time(line, &waits)));
    uses.into_iter().map(|(_, name, line)| (name, line)).collect()
}

/// The number of limits below 2 s in a file of the first tier, without tests that are steady.
fn short_limits_of(text: &str) -> usize {
    let lines = text.lines().collect::<Vec<_>>();
    let steady = |start: usize| {
        let rest = lines[start + 1..].iter();
        let inside = |line: &&&str| line.is_empty() || line.starts_with([' ', ')', '}', ']']);
        let body = std::iter::once(&lines[start]).chain(rest.take_while(inside));
        body.into_iter().any(|line| STEADY.iter().any(|word| line.contains(word)))
    };
    let uses = found(text, short_limits);
    uses.into_iter().filter(|(start, ..)| !steady(*start)).count()
}

/// The places of a file of the first tier that a rule finds: the first line of the outermost function or test around it
/// (from 0), its name, and the line (from 1). A line may have several.
fn found(text: &str, count: impl Fn(&str) -> usize) -> Vec<(usize, String, usize)> {
    let slow_module = |line: &str| line.starts_with("pytestmark") && line.contains("mark.slow");
    if text.lines().any(slow_module) {
        return Vec::new();
    }
    let lines = text.lines().collect::<Vec<_>>();
    // Indentation, first line, name, and whether the test is in the slow tier or uses a paused clock.
    let mut around: Vec<(usize, usize, String, bool)> = Vec::new();
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
            around.push((depth, at, name, slow));
        }
        if !around.iter().any(|(.., slow)| *slow) {
            let outermost = around.first();
            let (start, name) = outermost.map_or((at, ""), |(_, start, name, _)| (*start, name));
            uses.extend(std::iter::repeat_n((start, name.to_owned(), at + 1), count(code)));
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
fn first_tier_sets_no_limit_below_two_seconds() {
    let text = fs::read_to_string(root().join("tests/timing.toml")).unwrap();
    let Timing { allowed, mut short } = toml::from_str(&text).unwrap();
    let mut wrong = Vec::new();
    for (file, text) in first_tier(&allowed) {
        let (count, most) = (short_limits_of(&text), short.remove(&file).unwrap_or(0));
        if count != most {
            wrong.push(format!("\"{file}\" = {count} # was {most}"));
        }
    }
    wrong.extend(short.into_keys().map(|file| format!("{file}: no such file")));
    assert!(
        wrong.is_empty(),
        "A ttl, wait, node_timeout or connect_timeout below 2 s can end too early on a busy machine. Use a longer one, a \
         test clock or memory://. Below [short] in tests/timing.toml, a number may only fall:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn finds_each_limit_below_two_seconds() {
    for (line, count) in [
        ("client.lock(name, ttl=0.3, wait=1)", 2),
        ("client.lock(name, ttl=2, wait=0)", 0),
        ("lock(\"a\", { ttl: 1_999, nodeTimeout: 50, wait: 2_000 })", 2),
        (".ttl(ms(100)).wait(Duration::from_millis(1500))", 2),
        (".connect_timeout(millis(20_000)).await", 0),
        ("await_ttl=1, max_wait: 5", 0),
    ] {
        assert_eq!(short_limits(line), count, "{line}");
    }
    let python = "def test_a():\n    lock(ttl=1)\n\n\ndef test_b():\n    Redlock(\"memory://\").lock(ttl=1)\n";
    assert_eq!(short_limits_of(python), 1);
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
