//! Runs every command of `docs/reference/cli.md` in order, and compares its output with the page.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use super::command::{Running, program, redlock};
use crate::support::{Server, eventually_blocking};
use crate::tidy::root;

/// The commands of a page with the output below each.
pub(super) fn commands(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for block in page.split("```sh\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => output.extend([line, "\n"]),
                (None, None) => panic!("output without a command: {line}"),
            }
        }
    }
    found
}

/// The text with the same word for each token, and for each number, which differ in every run.
pub(super) fn comparable(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hex = rest.len() - rest.trim_start_matches(|each: char| each.is_ascii_hexdigit()).len();
        let number = rest.len()
            - rest
                .trim_start_matches(|each: char| each.is_ascii_digit() || ".-T:Z".contains(each))
                .len();
        let (word, length) = match first {
            _ if hex == 8 => ("TOKEN", hex),
            '0'..='9' => ("0", number),
            _ => ("", first.len_utf8()),
        };
        shown += if word.is_empty() { &rest[..length] } else { word };
        rest = &rest[length..];
    }
    shown
}

#[test]
fn commands_of_the_page_have_the_output_of_the_page() {
    let server = Server::start();
    server.ask("ACL SETUSER least +scan");
    let folder = std::env::temp_dir().join(format!("redlock-cli-page-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let _ = fs::remove_file(folder.join("redlock"));
    symlink(redlock(&[]).get_program(), folder.join("redlock")).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let page = fs::read_to_string(root().join("docs/reference/cli.md")).unwrap();
    let (commands, mut in_background) = (commands(&page), Vec::new());
    assert!(commands.len() > 8);
    for (command, expected) in commands {
        let mut shell = program("sh");
        let alone = command.strip_suffix(" &");
        let words =
            alone.map_or_else(|| format!("exec 2>&1; {command}"), |one| format!("exec {one}"));
        shell.args(["-c", &words]).current_dir(&folder).stdin(Stdio::null());
        shell.env("PATH", &path).env("REDIS_URL", server.url()).env_remove("REDLOCK_NODES");
        if alone.is_some() {
            in_background.push(Running::start(shell));
            eventually_blocking("held", || server.ask("DBSIZE") == ":1");
            continue;
        }
        let output = shell.stderr(Stdio::inherit()).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert_eq!(comparable(&output), comparable(&expected), "{command}\n{output}");
    }
    for running in in_background {
        // Its lock was released by the page.
        assert_eq!(running.status(), 99);
    }
    fs::remove_dir_all(&folder).unwrap();
}
