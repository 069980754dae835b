//! `redlock ls`: the locks that clients hold now, with the remaining time on each node.

use std::io::{self, IsTerminal};
use std::time::Duration;

use futures_util::future::join_all;
use redlock::ffi::{StoredLock, shown, stored_locks};
use redlock::{Inspection, NodeState, Redlock, Result};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::report::{Report, print};
use crate::snapshot::{has_readers, holder, object};
use crate::status::Status;
use crate::times;

/// How many locks are inspected at a time.
const BATCH: usize = 1000;
/// The shortest time between two lists.
const SHORTEST: Duration = Duration::from_millis(100);
/// Moves the cursor to the first line of a terminal, and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";
const HEAD: [&str; 4] = ["NAME", "KIND", "HOLDER", "LEFT ON EACH NODE"];

/// Lists locks and semaphores that are held, or kept by `min_hold`.
///
/// It looks at every key of each server with SCAN, which blocks no other client for long. The user needs the right
/// +scan.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only names that match. A * is any text, and a ? any character
    #[arg(default_value = "*")]
    pattern: String,
    /// Lists them again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// The time between two lists of --watch
    #[arg(long, value_name = "TIME", value_parser = times::parse, default_value = "2s", allow_negative_numbers = true)]
    interval: Duration,
    /// Prints a list as JSON on one line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn list(args: Args) -> Status {
    let report = Report { json: args.json };
    let client = match args.connection.client() {
        Ok(client) => client,
        Err(error) => return report.failure(&error),
    };
    loop {
        match found(&client, &args.pattern, report).await {
            Ok(found) => show(&args, &found),
            Err(error) if args.watch => drop(report.failure(&error)),
            Err(error) => return report.failure(&error),
        }
        if !args.watch {
            return Status::SUCCESS;
        }
        // At most ten times a second, because each list looks at all keys.
        tokio::time::sleep(args.interval.max(SHORTEST)).await;
    }
}

/// The locks whose names match, with a snapshot of each. Some may have ended in between.
async fn found(
    client: &Redlock,
    pattern: &str,
    report: Report,
) -> Result<Vec<(StoredLock, Inspection)>> {
    let stored = stored_locks(client).await?;
    for node in &stored.failed {
        let error = node.error.as_deref().unwrap_or_default();
        let message = format!("{}: {error}. Locks that only this node has are missing", node.url);
        report.problem("incomplete", json!({ "url": node.url, "message": message }), &message);
    }
    let matching: Vec<_> =
        stored.locks.into_iter().filter(|lock| matches(pattern, &lock.name)).collect();
    let mut found = Vec::new();
    for locks in matching.chunks(BATCH) {
        let snapshots = locks.iter().map(|lock| {
            let lock = match lock.permits {
                Some(permits) => client.semaphore(&*lock.name, permits),
                None => client.lock(&*lock.name),
            };
            lock.inspect()
        });
        for (lock, snapshot) in locks.iter().zip(join_all(snapshots).await) {
            let snapshot = snapshot?;
            if snapshot.nodes.iter().any(|node| node.state != NodeState::Free) {
                found.push((lock.clone(), snapshot));
            }
        }
    }
    Ok(found)
}

fn show(args: &Args, found: &[(StoredLock, Inspection)]) {
    if args.json {
        let list: Vec<_> = found.iter().map(|(lock, snapshot)| entry(lock, snapshot)).collect();
        return print(&Value::Array(list).to_string());
    }
    let clear = if args.watch && io::stdout().is_terminal() { CLEAR } else { "" };
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(found.iter().map(|(lock, snapshot)| row(lock, snapshot)));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [name, kind, holder] = [0, 1, 2].map(width);
    let line = |[a, b, c, d]: &[String; 4]| format!("{a:name$}  {b:kind$}  {c:holder$}  {d}");
    let lines: Vec<_> = rows.iter().map(line).collect();
    print(&format!("{clear}{}", lines.join("\n")));
}

fn kind(lock: &StoredLock, snapshot: &Inspection) -> &'static str {
    match lock.permits {
        Some(_) => "semaphore",
        None if has_readers(snapshot) => "rwlock",
        None => "mutex",
    }
}

fn entry(lock: &StoredLock, snapshot: &Inspection) -> Value {
    let mut entry = object(&lock.name, snapshot);
    entry["kind"] = json!(kind(lock, snapshot));
    if lock.permits.is_some() {
        // It is that of the highest permit that is taken. The semaphore may have more.
        entry["held"] = json!(snapshot.taken > 0);
        entry["limit"] = Value::Null;
    }
    entry
}

fn row(lock: &StoredLock, snapshot: &Inspection) -> [String; 4] {
    let holder = match lock.permits {
        Some(_) => format!("{} permits taken", snapshot.taken),
        None => holder(snapshot).unwrap_or_else(|| states(snapshot)),
    };
    // A lock has one key, and a semaphore shows that of each node that lasts longest.
    let mut nodes: Vec<(&str, String)> = Vec::new();
    for node in &snapshot.nodes {
        let left = match (node.state, node.remaining) {
            (NodeState::Free, _) => "-".to_owned(),
            (_, Some(left)) => times::shown(left),
            (NodeState::Fault, None) => "failed".to_owned(),
            (_, None) => "no end".to_owned(),
        };
        match nodes.iter_mut().find(|(url, _)| *url == node.url) {
            Some((_, shown)) if *shown == "-" => *shown = left,
            Some(_) => {}
            None => nodes.push((&node.url, left)),
        }
    }
    let nodes: Vec<_> = nodes.into_iter().map(|(_, left)| left).collect();
    [shown(&lock.name), kind(lock, snapshot).to_owned(), holder, nodes.join(", ")]
}

/// Why a lock without a holder has keys.
fn states(snapshot: &Inspection) -> String {
    let has = |state| snapshot.nodes.iter().any(|node| node.state == state);
    let text = if has(NodeState::Held) { "(no quorum)" } else { "(kept by min_hold)" };
    text.to_owned()
}

/// Whether a text matches a pattern, in which `*` is any text and `?` any character.
///
/// Only the last `*` is tried again, with one more character, so the time is at most that of both lengths multiplied.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from, mut last) = (0, 0, None);
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                last = Some((at, from));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == text[from] => {
                (at, from) = (at + 1, from + 1);
            }
            _ => {
                let Some((star, taken)) = last else { return false };
                last = Some((star, taken + 1));
                (at, from) = (star + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_those_of_a_shell() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "job", true),
            ("job", "job", true),
            ("job", "jobs", false),
            ("orders:*", "orders:42", true),
            ("orders:*", "stock:42", false),
            ("*:4?", "orders:42", true),
            ("*:4?", "orders:4", false),
            ("?", "ü", true),
            ("a*b*c", "aXbXbXc", true),
            ("", "x", false),
            ("a**", "a", true),
            ("*a", "ba", true),
            ("a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", &"a".repeat(200), false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
