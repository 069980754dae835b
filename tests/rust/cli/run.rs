//! What `redlock run` has beyond flock: events, the environment, the end of the command after a loss.

use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command, Stdio};

use serde_json::Value;

use super::command::{Running, is_running, outcome, program, redlock, redlock_at, runs};
use crate::support::{Server, eventually_blocking};

pub(super) type Events = std::io::Lines<BufReader<ChildStderr>>;

/// Starts a command with `--json`. Returns its events too.
pub(super) fn with_events(mut command: Command) -> (Running, Events) {
    command.stderr(Stdio::piped());
    let mut running = Running::start(command);
    let events = BufReader::new(running.child.stderr.take().unwrap()).lines();
    (running, events)
}

/// The next event with this name.
pub(super) fn until(events: &mut Events, name: &str) -> Value {
    loop {
        let line = events.next().unwrap_or_else(|| panic!("no event {name}")).unwrap();
        let event: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no event: {line}"));
        if event["event"] == name {
            return event;
        }
    }
}

const HOLD: &str = "echo ready; exec cat";

fn holding(server: &Server, options: &[&str], script: &str) -> Running {
    let mut command =
        redlock_at(server, &[&["run"], options, &["job", "--", "sh", "-c", script]].concat());
    command.stdin(Stdio::piped());
    Running::ready(command)
}

#[test]
fn command_sees_its_lock() {
    let server = Server::start();
    let script = "echo $REDLOCK_NAME $REDLOCK_TOKEN ${REDLOCK_FENCING_TOKEN-none}";
    let command = |options: &[&str]| {
        let words = [&["run", "job"], options, &["--", "sh", "-c", script]].concat();
        let mut command = redlock_at(&server, &words);
        command.env("REDLOCK_FENCING_TOKEN", "1");
        let outcome = outcome(command);
        assert_eq!((outcome.status, &*outcome.stderr), (0, ""));
        outcome.stdout.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = command(&["--label", "web-3"]);
    let (token, label) = plain[1].split_once(':').unwrap();
    assert_eq!((&*plain[0], token.len(), label, &*plain[2]), ("job", 32, "web-3", "none"));
    let fencing = || command(&["--fencing"])[2].parse::<u64>().unwrap();
    let first = fencing();
    assert!(first < fencing());
    assert_eq!(server.ask("EXISTS lock:job"), ":0");
}

#[test]
fn events_tell_the_whole_run() {
    let server = Server::start();
    let holder = holding(&server, &["--label", "web-1"], HOLD);
    let command =
        redlock_at(&server, &["run", "--json", "--fencing", "job", "--", "sh", "-c", "exit 7"]);
    let (running, mut events) = with_events(command);
    let waiting = until(&mut events, "waiting");
    assert_eq!((&waiting["name"], &waiting["holder"]), (&"job".into(), &"web-1".into()));
    assert_eq!(holder.status(), 0);
    let acquired = until(&mut events, "acquired");
    assert!(acquired["fencing_token"].is_u64() && acquired["waited"].is_f64(), "{acquired}");
    assert_eq!(until(&mut events, "exited")["status"], 7);
    assert_eq!(until(&mut events, "released")["name"], "job");
    assert_eq!(running.status(), 7);
    assert!(events.next().is_none());
}

#[test]
fn signal_reaches_every_process_of_the_command() {
    let server = Server::start();
    let script = "trap 'exit 5' TERM; sleep 100 & echo ready; echo $!; wait";
    let mut running = holding(&server, &[], script);
    let grandchild = running.line();
    eventually_blocking("the grandchild runs", || runs(&grandchild, "sleep"));
    running.signal(libc::SIGTERM);
    assert_eq!(running.status(), 5);
    eventually_blocking("the grandchild ends", || !is_running(&grandchild));
    assert_eq!(server.ask("EXISTS lock:job"), ":0", "released");
}

/// nohup(1) ignores the signal, so it must not be passed on.
#[test]
fn ignored_signal_stays_ignored() {
    let server = Server::start();
    let words = ["-c", "trap '' HUP; exec \"$0\" run job -- sh -c 'echo ready; exec cat'"];
    let mut command = program("sh");
    command.args(words).arg(redlock(&[]).get_program()).env("REDIS_URL", server.url());
    command.env_remove("REDLOCK_NODES").stdin(Stdio::piped());
    let running = Running::ready(command);
    running.signal(libc::SIGHUP);
    assert_eq!(running.status(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn command_ends_if_redlock_is_killed() {
    let server = Server::start();
    let mut running = holding(&server, &[], "echo ready; echo $$; exec cat");
    let command = running.line();
    running.signal(libc::SIGKILL);
    // Its input stays open.
    let input = running.child.stdin.take();
    eventually_blocking("the command ends", || !is_running(&command));
    drop(input);
    assert_eq!(running.status(), -libc::SIGKILL);
    // With `warn`, it may go on without the lock in every case.
    server.ask("DEL lock:job");
    let mut running = holding(&server, &["--on-lost", "warn"], "echo ready; echo $$; exec cat");
    let command = running.line();
    // Its input stays open.
    let input = running.child.stdin.take();
    running.signal(libc::SIGKILL);
    assert_eq!(running.status(), -libc::SIGKILL);
    assert!(is_running(&command));
    drop(input);
    eventually_blocking("the command ends with its input", || !is_running(&command));
}

#[test]
fn loss_ends_every_process_of_the_command() {
    let server = Server::start();
    // The command ends at SIGTERM. What it has started ignores that, and ends after the grace time.
    let script = "(trap '' TERM; sleep 100) & echo ready; echo $!; wait";
    let options = ["--json", "--grace", "0.1"];
    let mut command =
        redlock_at(&server, &[&["run"], &options[..], &["job", "--", "sh", "-c", script]].concat());
    command.stderr(Stdio::piped());
    let mut running = Running::ready(command);
    let mut events = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let grandchild = running.line();
    server.ask("DEL lock:job");
    assert_eq!(until(&mut events, "lost")["reason"], "missing");
    assert_eq!(until(&mut events, "exited")["signal"], libc::SIGTERM);
    assert_eq!(running.status(), 99);
    eventually_blocking("the grandchild ends", || !is_running(&grandchild));
}

#[test]
fn loss_ends_the_command_as_requested() {
    let server = Server::start();
    let cases: [(&[&str], &str, i32); 4] = [
        // The command may end in order within the grace time.
        (
            &[],
            "trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 100 & wait; done",
            99,
        ),
        (&["--grace", "0.1"], "trap '' TERM; echo ready; exec cat", 99),
        (&["--on-lost", "kill"], "trap '' TERM; echo ready; exec cat", 99),
        (&["--on-lost", "warn"], "echo ready; read line; echo $line; exit 0", 99),
    ];
    for (options, script, expected) in cases {
        let mut running = {
            let words = [&["run"], options, &["job", "--", "sh", "-c", script]].concat();
            let mut command = redlock_at(&server, &words);
            command.stdin(Stdio::piped()).stderr(Stdio::piped());
            Running::ready(command)
        };
        let mut messages = BufReader::new(running.child.stderr.take().unwrap()).lines();
        server.ask("DEL lock:job");
        let message = messages.next().unwrap().unwrap();
        assert!(
            message.contains("lock:job: the lease was lost") || message.contains("lost"),
            "{message}"
        );
        if script.contains("read line") {
            use std::io::Write;
            writeln!(running.child.stdin.as_ref().unwrap(), "went on").unwrap();
            assert_eq!(running.line(), "went on");
        }
        if script.contains("echo stopped") {
            assert_eq!(running.line(), "stopped");
        }
        assert_eq!(running.status(), expected, "{options:?}");
    }
}

#[test]
fn max_hold_ends_the_command() {
    let server = Server::start();
    let words = ["run", "--json", "--max-hold", "0.2", "job", "--", "sleep", "1000"];
    let (running, mut events) = with_events(redlock_at(&server, &words));
    assert_eq!(until(&mut events, "lost")["reason"], "max_hold");
    assert_eq!(running.status(), 99);
}

#[test]
fn permits_are_shared_by_as_many_commands() {
    let server = Server::start();
    let one = holding(&server, &["--permits", "1/2"], HOLD);
    let two = holding(&server, &["--permits", "1/2"], HOLD);
    let third = || outcome(redlock_at(&server, &["run", "-n", "--permits", "1/2", "job", "true"]));
    assert_eq!(third().status, 1);
    assert_eq!(one.status(), 0);
    assert_eq!(third().status, 0);
    assert_eq!(two.status(), 0);
}

#[test]
fn min_hold_keeps_the_lock_after_the_command() {
    let server = Server::start();
    let tick = || {
        let words = ["run", "-n", "--ttl", "60", "--min-hold", "50", "job", "--", "echo", "ran"];
        outcome(redlock_at(&server, &words))
    };
    let outcomes = [tick(), tick()].map(|outcome| (outcome.status, outcome.stdout));
    assert_eq!(outcomes, [(0, "ran\n".to_owned()), (1, String::new())]);
}

#[test]
fn min_hold_does_not_keep_the_lock_of_a_command_that_cannot_be_run() {
    let server = Server::start();
    for options in [&[][..], &["--permits", "1/2"]] {
        let tick = ["run", "--json", "-n", "--ttl", "60", "--min-hold", "50"];
        let words = [&tick, options, &["job", "no-such-program"]].concat();
        let outcome = outcome(redlock_at(&server, &words));
        assert_eq!(outcome.status, 69, "{}", outcome.stderr);
        let events: Vec<Value> =
            outcome.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["acquired", "released", "failed"]);
        assert_eq!(server.ask("DBSIZE"), ":0", "{options:?}");
    }
}

#[test]
fn nothing_is_written_on_success() {
    let server = Server::start();
    let outcome = outcome(redlock_at(&server, &["run", "job", "--", "true"]));
    assert_eq!((outcome.status, &*outcome.stdout, &*outcome.stderr), (0, "", ""));
}

#[test]
fn signals_that_end_nothing_do_not_end_the_wait() {
    let server = Server::start();
    server.ask("SET lock:job other PX 600000");
    let mut waiting = Running::start(redlock_at(&server, &["run", "job", "--", "echo", "ready"]));
    eventually_blocking("connected", || server.text("CLIENT LIST").contains("name=redlock-cli"));
    waiting.signal(libc::SIGCHLD);
    waiting.signal(libc::SIGCONT);
    server.ask("DEL lock:job");
    assert_eq!(waiting.line(), "ready");
    assert_eq!(waiting.status(), 0);
}

/// As systemd and timeout(1) do.
#[test]
fn sigcont_after_sigterm_does_not_hide_it() {
    let server = Server::start();
    let running = holding(&server, &[], "echo ready; exec cat");
    running.signal(libc::SIGTERM);
    running.signal(libc::SIGCONT);
    assert_eq!(running.status_with_input(), -libc::SIGTERM);
}

#[test]
fn list_ends_with_its_reader() {
    let server = Server::start();
    let words = ["ls", "--watch", "--interval", "100ms"];
    let mut listing = Running::start(redlock_at(&server, &words));
    listing.line();
    assert_eq!(listing.status_without_reader(), 1);
}

/// Also without a terminal, as a job of cron that waits without a limit.
#[test]
fn wait_for_an_unreachable_server_says_so() {
    let mut command = redlock(&["run", "job", "true"]);
    command.env("REDIS_URL", "redis://127.0.0.1:1").stderr(Stdio::piped());
    let mut waiting = Running::start(command);
    let mut messages = BufReader::new(waiting.child.stderr.take().unwrap()).lines();
    let message = messages.next().unwrap().unwrap();
    assert!(message.starts_with("redlock: still waiting. lock:job"), "{message}");
    assert!(message.contains("refused"), "{message}");
    waiting.signal(libc::SIGTERM);
    assert_eq!(waiting.status(), -libc::SIGTERM);
    assert!(messages.next().is_none(), "once");
}

#[test]
fn nested_run_of_the_same_name_does_not_wait_for_itself() {
    let server = Server::start();
    let own = redlock(&[]).get_program().to_str().unwrap().to_owned();
    let nested = |outer: &[&str], inner: &[&str]| {
        let command = [&["run"], outer, &["job", &*own, "run"], inner, &["echo", "ran"]].concat();
        outcome(redlock_at(&server, &command))
    };
    for inner in [&["job"][..], &["-w", "600", "job"], &["-n", "job"], &["--shared", "job"]] {
        let outcome = nested(&[], inner);
        assert_eq!((outcome.status, &*outcome.stdout), (1, ""), "{inner:?}");
        let message = "job is the lock under which this command runs already. It is not reentrant";
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    }
    let shared = nested(&["--shared"], &["-n", "job"]);
    assert_eq!(shared.status, 1);
    assert!(
        shared.stderr.contains("job is shared, perhaps by the lock under"),
        "{}",
        shared.stderr
    );
    // Nothing is wrong with these.
    for (outer, inner) in [
        (&[][..], &["other"][..]),
        (&["--shared"], &["--shared", "job"]),
        (&["--permits", "1/2"], &["--permits", "1/2", "job"]),
        (&[], &["--key-prefix", "other:", "job"]),
    ] {
        let outcome = nested(outer, inner);
        let seen = (outcome.status, &*outcome.stdout, &*outcome.stderr);
        assert_eq!(seen, (0, "ran\n", ""), "{outer:?} {inner:?}");
    }
}

#[test]
fn signal_during_the_grace_time_kills() {
    let server = Server::start();
    let scripts = [
        "trap '' TERM; echo ready; exec cat",
        "(trap '' TERM; exec sleep 1000) & echo ready; exec cat",
    ];
    for (script, signal) in scripts.into_iter().zip([libc::SIGTERM, libc::SIGINT]) {
        let words = ["run", "--json", "--grace", "600", "job", "--", "sh", "-c", script];
        let mut command = redlock_at(&server, &words);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::ready(command);
        let mut events = BufReader::new(running.child.stderr.take().unwrap()).lines();
        server.ask("DEL lock:job");
        until(&mut events, "lost");
        running.signal(signal);
        assert_eq!(running.status_with_input(), 99);
    }
}

/// As of `timeout` in a script, and of a daemon, whose parent has ended.
#[cfg(target_os = "linux")]
#[test]
fn loss_ends_what_has_left_the_process_group() {
    let server = Server::start();
    let left = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000'";
    let script = format!("echo ready; ({left} &); timeout 1000 sleep 1000 & {left} & wait");
    let mut running = holding(&server, &["--grace", "0.1"], &script);
    let processes = [running.line(), running.line()];
    server.ask("DEL lock:job");
    assert_eq!(running.status(), 99);
    for process in processes {
        assert!(!is_running(&process), "{process}");
    }
}
