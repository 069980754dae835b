//! A shell with job control on a pseudo terminal: the command may read it, and Ctrl-C and Ctrl-Z work.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Child;

use super::command::{program, redlock};
use crate::support::{Server, eventually_blocking};

/// Generous, for a busy machine.
const DEADLINE_MS: libc::c_int = 60_000;

/// A shell whose terminal the test has the other end of.
struct Shell {
    child: Child,
    terminal: File,
    /// All output that was read and not taken yet.
    output: String,
}

impl Shell {
    fn start(server: &Server) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        let null = std::ptr::null_mut::<()>();
        // SAFETY: both pointers are valid, and no name, settings and size are set.
        let opened = unsafe {
            libc::openpty(&raw mut ours, &raw mut theirs, null.cast(), null.cast(), null.cast())
        };
        assert_eq!(opened, 0);
        // SAFETY: both were just opened.
        let (terminal, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        let mut command = program("bash");
        command
            .args(["--norc", "--noprofile", "--noediting", "-i"])
            .envs([("PS1", "$ "), ("TERM", "xterm")]);
        command.env("REDIS_URL", server.url()).env_remove("REDLOCK_NODES");
        command.env("REDLOCK", redlock(&[]).get_program());
        command
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        let session = move || {
            // The end of the test must remain the only one, so that the terminal ends with it.
            // SAFETY: system calls without memory. Descriptor 0 is the terminal.
            let done = unsafe {
                libc::close(ours) == 0
                    && libc::setsid() >= 0
                    && libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0
            };
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(session) };
        let child = command.spawn().unwrap();
        Self { child, terminal, output: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until the text appears, and takes everything up to it.
    fn shows(&mut self, text: &str) -> String {
        let mut bytes = [0; 4096];
        loop {
            if let Some((before, after)) = self.output.split_once(text) {
                let taken = before.to_owned();
                self.output = after.to_owned();
                return taken;
            }
            let mut ready =
                libc::pollfd { fd: self.terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the pointer is valid.
            let is_ready = unsafe { libc::poll(&raw mut ready, 1, DEADLINE_MS) } == 1;
            assert!(is_ready, "not in time: {text:?} after {}", self.output);
            let count = self.terminal.read(&mut bytes).unwrap_or_default();
            assert!(count > 0, "the terminal ended before {text:?}: {}", self.output);
            self.output.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The texts are split, so that the echo of what the test types does not contain them.
const READER: &str = "\"$REDLOCK\" run job -- sh -c 'echo re\"\"ady; while read line; do echo got\"\"-$line; done'\n";

#[test]
fn command_reads_the_terminal_and_ends_at_ctrl_c() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.types(READER);
    shell.shows("ready");
    shell.types("one\n");
    shell.shows("got-one");
    shell.types("\u{3}");
    shell.shows("$ ");
    shell.types("echo status\"\"-$?\n");
    shell.shows("status-130");
    assert_eq!(server.ask("EXISTS lock:job"), ":0", "released");
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.types(READER);
    shell.shows("ready");
    shell.types("one\n");
    shell.shows("got-one");
    shell.types("\u{1a}");
    shell.shows("Stopped");
    shell.types("fg\n");
    shell.types("two\n");
    shell.shows("got-two");
    // The end of the input.
    shell.types("\u{4}");
    shell.types("echo status\"\"-$?\n");
    shell.shows("status-0");
}

/// A command that does not read the terminal never has it.
#[test]
fn ctrl_z_and_ctrl_c_reach_a_command_that_does_not_read() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    let script = "trap \"echo conti\\\"\\\"nued\" CONT; trap \"kill \\$!; exit 130\" INT; echo re\"\"ady; while :; do sleep 100 & wait; done";
    shell.types(&format!("\"$REDLOCK\" run job -- sh -c '{script}'\n"));
    shell.shows("ready");
    shell.types("\u{1a}");
    shell.shows("Stopped");
    shell.types("fg\n");
    shell.shows("continued");
    shell.types("\u{3}");
    shell.shows("$ ");
    shell.types("echo status\"\"-$?\n");
    shell.shows("status-130");
    assert_eq!(server.ask("EXISTS lock:job"), ":0", "released");
}

/// A job in the background that reads the terminal stops, as without redlock.
#[test]
fn job_in_the_background_stops_when_it_reads() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.types("set -b\n");
    shell.types(&READER.replace('\n', " &\n"));
    shell.shows("ready");
    shell.shows("Stopped");
    shell.types("fg\n");
    shell.types("one\n");
    shell.shows("got-one");
    shell.types("\u{3}");
    shell.shows("$ ");
    shell.types("echo status\"\"-$?\n");
    shell.shows("status-130");
}

/// Ctrl-C ends a script too, although the terminal sent it to the command alone.
#[test]
fn ctrl_c_ends_the_script_around_the_command() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    let script = "\"$REDLOCK\" run job -- sh -c \"echo re\\\"\\\"ady; read line; echo got-\\$line; read line\"; echo went\"\"-on";
    shell.types(&format!("bash -c '{script}'\n"));
    shell.shows("ready");
    shell.types("one\n");
    shell.shows("got-one");
    shell.types("\u{3}");
    shell.shows("$ ");
    shell.types("echo status\"\"-$?\n");
    let output = shell.shows("status-130");
    assert!(!output.contains("went-on"), "{output}");
}

#[test]
fn line_shows_the_holder_while_waiting() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.types("\"$REDLOCK\" run --label web-3 job sh -c 'sleep 100' &\n");
    eventually_blocking("held", || server.ask("EXISTS lock:job") == ":1");
    shell.types("\"$REDLOCK\" run job true\n");
    shell.shows("waiting for job: held by web-3, ");
    shell.shows("waited");
    shell.types("\u{3}");
    shell.types("kill %1; echo en\"\"ded\n");
    shell.shows("ended");
}

#[test]
fn release_asks_on_a_terminal() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    server.ask("SET lock:job 0123456789abcdef0123456789abcdef PX 60000");
    shell.types("\"$REDLOCK\" release job --force\n");
    shell.shows("job is held by 01234567, ");
    shell.shows("Release it? [y/N] ");
    shell.types("n\n");
    shell.types("echo status\"\"-$?\n");
    shell.shows("status-1");
    assert_eq!(server.ask("EXISTS lock:job"), ":1");
    shell.types("\"$REDLOCK\" release job --force\n");
    shell.shows("[y/N] ");
    shell.types("y\n");
    shell.shows("job: released");
    assert_eq!(server.ask("EXISTS lock:job"), ":0");
}
