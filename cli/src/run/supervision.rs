//! Watches the command and its lock: passes on signals, and ends the command if the lock is lost.

use std::future::pending;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP, c_int};
use redlock::{Error, LeaseHandle};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::OnLost;
use super::child::Child;
use super::signals::Signals;
use crate::report::Report;
use crate::status::Status;

/// How often to look whether the processes that the command has left are gone. Nothing notifies of their end.
const CHILD_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How often to kill them.
const KILLS: usize = 50;

impl OnLost {
    /// The signal that ends the command, if one does.
    fn signal(self) -> Option<c_int> {
        match self {
            Self::Term => Some(SIGTERM),
            Self::Kill => Some(SIGKILL),
            Self::Warn => None,
        }
    }

    /// The same signal, for the case that this process dies and cannot notice the loss.
    pub(super) fn signal_of_a_death(self) -> Option<c_int> {
        self.signal()
    }
}

/// How the command ended.
pub(super) struct Ended {
    pub(super) exit: ExitStatus,
    /// Whether the lock was lost before.
    pub(super) lost: bool,
    /// The last signal that this process passed on.
    passed_on: Option<c_int>,
    /// Whether the command was in the foreground of the terminal.
    had_terminal: bool,
}

impl Ended {
    /// The status of a command that kept its lock.
    pub(super) fn status(&self) -> Status {
        match self.exit.signal() {
            // As flock, which the signal itself ended. A shell that runs a script then ends the script too.
            Some(signal) if self.passed_on == Some(signal) => Status::by_signal(signal),
            Some(signal @ (SIGINT | SIGQUIT)) if self.had_terminal => {
                Status::by_signal_of_terminal(signal)
            }
            Some(signal) => Status::of_signal(signal),
            None => Status::from_code(
                u8::try_from(self.exit.code().unwrap_or_default()).unwrap_or(u8::MAX),
            ),
        }
    }
}

pub(super) struct Supervision {
    child: Child,
    lease: LeaseHandle,
    on_lost: OnLost,
    grace: Duration,
    /// Whether the lock is lost.
    lost: bool,
    /// When to end the command by force.
    kill_at: Option<Instant>,
    passed_on: Option<c_int>,
}

impl Supervision {
    pub(super) fn new(child: Child, lease: LeaseHandle, on_lost: OnLost, grace: Duration) -> Self {
        Self { child, lease, on_lost, grace, lost: false, kill_at: None, passed_on: None }
    }

    /// Waits until the command has ended.
    pub(super) async fn run(mut self, signals: &mut Signals, report: Report) -> Ended {
        // It may have ended before.
        let mut exit = self.child.changed();
        while exit.is_none() {
            tokio::select! {
                biased;
                error = self.lease.lost(), if !self.lost => self.lose(&error, report),
                signal = signals.next() => match signal {
                    SIGCHLD => exit = self.child.changed(),
                    signal if self.is_impatient(signal) => self.kill(),
                    signal => {
                        // Those that stop and continue it do not end it. systemd sends SIGCONT after SIGTERM.
                        if ![SIGCONT, SIGTSTP].contains(&signal) {
                            self.passed_on = Some(signal);
                        }
                        self.child.signal(signal);
                    }
                },
                () = until(self.kill_at) => self.kill(),
            }
        }
        self.end_the_rest(signals).await;
        let exit = exit.unwrap_or_default();
        Ended {
            exit,
            lost: self.lost,
            passed_on: self.passed_on,
            had_terminal: self.child.had_terminal(),
        }
    }

    fn lose(&mut self, error: &Error, report: Report) {
        self.lost = true;
        let action = match self.on_lost {
            OnLost::Term => "ending the command",
            OnLost::Kill => "killing the command",
            OnLost::Warn => "the command goes on without it",
        };
        let fields = json!({ "reason": error.reason(), "message": error.to_string() });
        report.problem("lost", fields, &format!("{error}: {action}"));
        if let Some(signal) = self.on_lost.signal() {
            self.child.signal_all(signal);
            // A stopped process handles a signal only when it continues.
            self.child.signal_all(SIGCONT);
            self.kill_at = Some(Instant::now() + self.grace);
        }
    }

    fn kill(&mut self) {
        self.child.signal_all(SIGKILL);
        self.kill_at = None;
    }

    /// Whether the user does not want to wait for the end of the grace time, as with a second Ctrl-C.
    fn is_impatient(&self, signal: c_int) -> bool {
        self.kill_at.is_some() && [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
    }

    /// After a loss, no process that the command started may go on.
    async fn end_the_rest(&mut self, signals: &mut Signals) {
        if !self.lost || self.on_lost.signal().is_none() {
            return;
        }
        // After a kill, at once.
        let kill_at = self.kill_at.unwrap_or_else(Instant::now);
        while self.child.has_processes() && Instant::now() < kill_at {
            tokio::select! {
                () = sleep(CHILD_CHECK_INTERVAL) => {}
                signal = signals.next() => {
                    if self.is_impatient(signal) {
                        break;
                    }
                }
            }
        }
        // A process may have started another one meanwhile. One that cannot be killed does not end.
        for _ in 0..KILLS {
            if !self.child.has_processes() {
                break;
            }
            self.kill();
            sleep(CHILD_CHECK_INTERVAL).await;
        }
    }
}

/// Waits until a time, or forever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
