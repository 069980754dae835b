//! Wrong command lines: each message names the value, the rule and what to do. No message shows a secret.

use super::command::{outcome, redlock};

#[test]
fn message_names_value_rule_and_fix() {
    let cases: [(&[&str], &[&str]); 14] = [
        (&["doctor", "--ttl", "10ms"], &["ttl", "at least 0.1 s", "0.01"]),
        (
            &["run", "--ttl", "soon", "job", "true"],
            &["'soon'", "--ttl", "a number of seconds", "30s"],
        ),
        (&["run", "-w", "5 apples", "job", "true"], &["'5 apples'", "--wait", "unit", "5m"]),
        (&["run", "--ttl", "10ms", "job", "true"], &["ttl", "at least 0.1 s", "0.01"]),
        (&["run", "--permits", "3", "job", "true"], &["'3'", "--permits", "two numbers", "1/4"]),
        (&["run", "--permits", "3/2", "job", "true"], &["permits", "limit", "3", "2"]),
        (&["run", "--fencing", "--permits", "1/2", "job", "true"], &["semaphore", "fencing"]),
        (&["run", "-n", "-w", "5", "job", "true"], &["--no-wait", "--wait", "cannot be used"]),
        (
            &["run", "--on-lost", "stop", "job", "true"],
            &["'stop'", "--on-lost", "term, kill, warn"],
        ),
        (&["run", "--label", "two words", "job", "true"], &["label", "two words", "letters"]),
        (&["run", "--labl", "x", "job", "true"], &["'--labl'", "unexpected"]),
        (&["run", "job"], &["<COMMAND>", "Usage: redlock run"]),
        (&["run", "", "true"], &["name", "empty"]),
        (&["release", "job"], &["--force", "required"]),
    ];
    for (words, expected) in cases {
        let mut command = redlock(words);
        command.env("REDIS_URL", "redis://127.0.0.1:1");
        let outcome = outcome(command);
        assert_eq!(outcome.status, 64, "{words:?}: {}", outcome.stderr);
        for part in expected {
            assert!(
                outcome.stderr.contains(part),
                "{words:?} without {part:?}: {}",
                outcome.stderr
            );
        }
    }
}

#[test]
fn wrong_url_is_refused_without_its_password() {
    for url in ["redis://user:s3cret@", "redis://:s3cret@127.0.0.1:port", "http://:s3cret@host"] {
        let given = redlock(&["run", "--url", url, "job", "true"]);
        let mut environment = redlock(&["run", "job", "true"]);
        environment.env("REDLOCK_NODES", url);
        for command in [given, environment] {
            let outcome = outcome(command);
            assert_eq!(outcome.status, 64, "{url}: {}", outcome.stderr);
            assert!(!outcome.stderr.contains("s3cret"), "{}", outcome.stderr);
            assert!(outcome.stderr.starts_with("redlock: "), "{}", outcome.stderr);
        }
    }
}

/// Each command would have a different node, so it would exclude no other command.
#[test]
fn node_inside_of_the_process_is_refused() {
    let commands: [&[&str]; 6] = [
        &["run", "job", "true"],
        &["inspect", "job"],
        &["ls"],
        &["wait", "job"],
        &["release", "--force", "--yes", "job"],
        &["doctor"],
    ];
    for words in commands {
        for nodes in ["memory://", "redis://127.0.0.1:1,memory://other"] {
            let mut command = redlock(words);
            command.env("REDLOCK_NODES", nodes);
            let outcome = outcome(command);
            assert_eq!(outcome.status, 64, "{words:?}: {}", outcome.stderr);
            let error = "memory:// is a node inside of one process";
            assert!(outcome.stderr.contains(error), "{words:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn unreachable_server_is_a_temporary_failure() {
    let url = "redis://:s3cret@127.0.0.1:1";
    let commands: [&[&str]; 4] = [
        &["run", "-n", "job", "true"],
        &["inspect", "job"],
        &["wait", "-w", "0", "job"],
        &["release", "--force", "--yes", "job"],
    ];
    for words in commands {
        let mut command = redlock(words);
        command.env("REDIS_URL", url);
        let outcome = outcome(command);
        assert_eq!(outcome.status, 75, "{words:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("redis://127.0.0.1:1: cannot connect"),
            "{}",
            outcome.stderr
        );
        assert!(!outcome.stderr.contains("s3cret"), "{}", outcome.stderr);
    }
}

#[test]
fn missing_servers_are_not_silently_those_of_this_machine() {
    let outcome = outcome(redlock(&["run", "--json", "-n", "--ttl", "soon", "job", "true"]));
    assert!(!outcome.stderr.contains("REDIS_URL"), "{}", outcome.stderr);
    let outcome = super::command::outcome(redlock(&["inspect", "--connect-timeout", "0", "job"]));
    assert_eq!(outcome.status, 64);
    assert!(outcome.stderr.contains("neither --url nor REDLOCK_NODES nor REDIS_URL is set"));
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = outcome(redlock(&["completions", shell]));
        assert_eq!(outcome.status, 0);
        assert!(outcome.stdout.contains("min-hold"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    for command in ["run", "inspect", "ls", "wait", "release", "doctor"] {
        let outcome = outcome(redlock(&["man", command]));
        assert_eq!(outcome.status, 0);
        assert!(outcome.stdout.contains(&format!("redlock\\-{command}")), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("\\-\\-key\\-prefix"), "{command}");
    }
    assert!(outcome(redlock(&["man"])).stdout.contains(".SH SUBCOMMANDS"));
    let unknown = outcome(redlock(&["man", "lock"]));
    assert_eq!(unknown.status, 64);
    assert!(unknown.stderr.contains("\"lock\""), "{}", unknown.stderr);
}
