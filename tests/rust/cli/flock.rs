//! `redlock run` follows the conventions of flock(1): the same cases run through both.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::command::{Running, outcome, program, redlock_at};
use crate::support::Server;

/// Both tools, with a lock of each.
struct Tools {
    server: Server,
    folder: PathBuf,
}

impl Tools {
    fn new(test: &str) -> Self {
        let name = format!("redlock-cli-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("text"), "no program").unwrap();
        Self { server: Server::start(), folder }
    }

    /// The commands that hold the lock while they run others, which are in their folder.
    fn commands(&self, options: &[&str], command: &[&str]) -> [(&'static str, Command); 2] {
        let mut flock = program("flock");
        flock.args(options).arg("lock").args(command);
        let redlock = redlock_at(&self.server, &[&["run"], options, &["lock"], command].concat());
        [("flock", flock), ("redlock", redlock)].map(|(tool, mut each)| {
            each.current_dir(&self.folder).stdin(Stdio::null());
            (tool, each)
        })
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A command that says when it runs, and ends with its input.
const HOLD: [&str; 3] = ["sh", "-c", "echo ready; exec cat"];

#[test]
fn exit_statuses_are_those_of_flock() {
    let tools = Tools::new("statuses");
    let cases: [(&[&str], &[&str], i32); 16] = [
        (&[], &["true"], 0),
        (&[], &["sh", "-c", "exit 7"], 7),
        (&[], &["sh", "-c", "exit 255"], 255),
        (&[], &["sh", "-c", "kill -KILL $$"], 137),
        (&[], &["sh", "-c", "kill -TERM $$"], 143),
        (&[], &["sh", "-c", "kill -INT $$"], 130),
        (&[], &["no-such-program"], 69),
        (&[], &["./text"], 69),
        (&["-n"], &["sh", "-c", "exit 3"], 3),
        (&["-w", "5"], &["sh", "-c", "exit 4"], 4),
        (&["-E", "9", "-n"], &["sh", "-c", "exit 5"], 5),
        (&["-w", "soon"], &["true"], 64),
        (&["-E", "300"], &["true"], 64),
        (&["-E", "-1"], &["true"], 64),
        (&["--no-such-option"], &["true"], 64),
        (&[], &[], 64),
    ];
    for (options, command, expected) in cases {
        for (tool, each) in tools.commands(options, command) {
            assert_eq!(outcome(each).status, expected, "{tool} {options:?} {command:?}");
        }
    }
}

#[test]
fn held_lock_is_reported_as_by_flock() {
    let tools = Tools::new("held");
    let holders = tools.commands(&[], &HOLD).map(|(_, mut command)| {
        command.stdin(Stdio::piped());
        Running::ready(command)
    });
    let cases: [(&[&str], i32); 8] = [
        (&["-n"], 1),
        (&["--nonblock"], 1),
        (&["-w", "0"], 1),
        (&["-w", "0.1"], 1),
        (&["--timeout", "0.1"], 1),
        (&["-n", "-E", "42"], 42),
        (&["-w", "0.1", "-E", "42"], 42),
        (&["--conflict-exit-code", "0", "-n"], 0),
    ];
    for (options, expected) in cases {
        for (tool, each) in tools.commands(options, &["echo", "ran"]) {
            let outcome = outcome(each);
            assert_eq!(outcome.status, expected, "{tool} {options:?}");
            assert_eq!((&*outcome.stdout, &*outcome.stderr), ("", ""), "{tool} {options:?}");
        }
    }
    // Without a limit they wait, and run once the holders have ended.
    let waiting = tools.commands(&[], &HOLD).map(|(_, command)| Running::start(command));
    for holder in holders {
        assert_eq!(holder.status(), 0);
    }
    for mut waiting in waiting {
        assert_eq!(waiting.line(), "ready");
        assert_eq!(waiting.status(), 0);
    }
}

#[test]
fn shared_locks_are_held_together() {
    let tools = Tools::new("shared");
    let share = |options: &[&str]| {
        tools.commands(options, &HOLD).map(|(_, mut command)| {
            command.stdin(Stdio::piped());
            Running::ready(command)
        })
    };
    let holders = [share(&["-s"]), share(&["--shared", "-n"])];
    for (tool, each) in tools.commands(&["-n"], &["true"]) {
        assert_eq!(outcome(each).status, 1, "{tool}");
    }
    for holder in holders.into_iter().flatten() {
        assert_eq!(holder.status(), 0);
    }
    let exclusive = share(&["-n"]);
    for (tool, each) in tools.commands(&["-s", "-n"], &["true"]) {
        assert_eq!(outcome(each).status, 1, "{tool}");
    }
    for holder in exclusive {
        assert_eq!(holder.status(), 0);
    }
}

#[test]
fn signal_ends_the_tool_itself_as_flock() {
    let tools = Tools::new("signals");
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1] {
        for (tool, mut command) in tools.commands(&[], &HOLD) {
            command.stdin(Stdio::piped());
            let running = Running::ready(command);
            running.signal(signal);
            assert_eq!(running.status_with_input(), -signal, "{tool}");
        }
        // While it waits, too. The lock of flock is that of its command, which goes on without it.
        let mut holder = redlock_at(&tools.server, &[&["run", "lock"], &HOLD[..]].concat());
        let holder = Running::ready({
            holder.stdin(Stdio::piped());
            holder
        });
        let waits = redlock_at(&tools.server, &["run", "--json", "lock", "true"]);
        let (waiting, mut events) = super::run::with_events(waits);
        assert_eq!(super::run::until(&mut events, "waiting")["name"], "lock");
        waiting.signal(signal);
        assert_eq!(waiting.status(), -signal);
        assert_eq!(holder.status(), 0);
    }
}
