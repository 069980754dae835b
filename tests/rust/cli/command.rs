//! Runs the command line, and reads its lines as they appear.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use crate::support::Server;

/// A program that ignores no signal, as it would if the tests ran under `nohup` or in the background of a script.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    let reset = || {
        for signal in 1..32 {
            // SAFETY: a system call. It fails for SIGKILL and SIGSTOP, which cannot be ignored.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(reset) };
    command
}

/// A command line of `redlock` that reads no environment variable of the caller.
pub(crate) fn redlock(words: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_command"));
    command.args(words).env_remove("REDLOCK_NODES").env_remove("REDIS_URL").stdin(Stdio::null());
    command
}

/// `redlock` over one server.
pub(crate) fn redlock_at(server: &Server, words: &[&str]) -> Command {
    let mut command = redlock(words);
    command.env("REDIS_URL", server.url());
    command
}

/// The output and the exit status of a command that has ended.
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The number that a shell shows. Negative if a signal ended the process itself.
pub(crate) fn number(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| -signal)).unwrap()
}

pub(crate) fn outcome(mut command: Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome {
        status: number(output.status),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A running command, which is killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Starts a command, and waits for its first line.
    pub(crate) fn ready(command: Command) -> Self {
        let mut running = Self::start(command);
        assert_eq!(running.line(), "ready");
        running
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("the output goes on").unwrap()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the child belongs to this process and is not reaped yet.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), signal) }, 0);
    }

    /// Waits until it has ended, which it may do at the end of its input.
    pub(crate) fn status(mut self) -> i32 {
        drop(self.child.stdin.take());
        number(self.child.wait().unwrap())
    }

    /// Waits until it has ended because its output has no reader.
    pub(crate) fn status_without_reader(mut self) -> i32 {
        let (end, _) = std::io::pipe().unwrap();
        self.lines = BufReader::new(ChildStdout::from(std::os::fd::OwnedFd::from(end))).lines();
        number(self.child.wait().unwrap())
    }

    /// Waits until it has ended before its input does. Waiting would close the input otherwise.
    pub(crate) fn status_with_input(mut self) -> i32 {
        let _input = self.child.stdin.take();
        number(self.child.wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process runs this program. A shell that has not started it yet may lose signals.
pub(crate) fn runs(pid: &str, program: &str) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end() == program
}

/// Whether a process exists that is not a zombie.
pub(crate) fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
