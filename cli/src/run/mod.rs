//! `redlock run`: holds a lock while a command runs.
//!
//! The conventions are those of flock(1). The command has a separate process group, so that signals and the end after a
//! loss reach all processes that it started.

mod child;
#[cfg(target_os = "linux")]
mod descendants;
mod nested;
mod signals;
mod supervision;
mod terminal;
mod waiting;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use redlock::{Lease, Lock, Redlock, Result, ffi};
use serde_json::json;

use crate::connection::Connection;
use crate::report::{Report, print_message};
use crate::snapshot::seconds;
use crate::status::{self, CONFLICT, Status};
use crate::times;
use child::Child;
use signals::Signals;
use supervision::{Ended, Supervision};

/// How long an ending client may take to send its last deletes.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Runs a command while holding a lock.
///
/// Exit status: that of the command, 128 + N if signal N ended it, 1 (or -E) if the lock was not acquired in time, 99
/// if it was lost before the command ended, 64 for wrong arguments, 69 if the command cannot be run, 75 if no quorum
/// of servers replied.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The name of the lock, without the key prefix
    name: String,
    /// The command, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    words: Vec<OsString>,
    #[command(flatten)]
    lock: LockOptions,
    #[command(flatten)]
    command: CommandOptions,
    #[command(flatten)]
    connection: Connection,
}

#[derive(clap::Args)]
struct LockOptions {
    /// How long the lock stays if this process dies [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    ttl: Option<Duration>,
    /// How long to wait for the lock [default: forever]
    #[arg(short = 'w', long, visible_alias = "timeout", value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    wait: Option<Duration>,
    /// Fails at once if the lock is held
    #[arg(short = 'n', long, visible_alias = "nonblock", conflicts_with = "wait")]
    no_wait: bool,
    /// How long the lock stays after the acquire, even if the command ends earlier
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    min_hold: Option<Duration>,
    /// The lock is lost after this time
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    max_hold: Option<Duration>,
    /// Passes a fencing token to the command
    #[arg(long)]
    fencing: bool,
    /// Shares the lock with other commands that do
    #[arg(short, long, conflicts_with_all = ["permits", "fencing", "min_hold"])]
    shared: bool,
    /// M permits of a semaphore that has N
    #[arg(long, value_name = "M/N", value_parser = permits)]
    permits: Option<(u32, u32)>,
    /// The name of this holder for people [default: host and process]
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Command")]
struct CommandOptions {
    /// What to do with the command if the lock is lost
    #[arg(long, value_name = "ACTION", default_value = "term")]
    on_lost: OnLost,
    /// How long the command has between SIGTERM and SIGKILL
    #[arg(long, value_name = "TIME", value_parser = times::parse, default_value = "10s", allow_negative_numbers = true)]
    grace: Duration,
    /// Exit status if the lock was not acquired in time
    #[arg(short = 'E', long, value_name = "STATUS", default_value_t = CONFLICT.code())]
    conflict_exit_code: u8,
    /// Prints events as JSON, one on each line of stderr
    #[arg(long)]
    json: bool,
}

/// What to do with the command if the lock is lost.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnLost {
    /// SIGTERM, then SIGKILL after the grace time
    Term,
    /// SIGKILL
    Kill,
    /// Only a message
    Warn,
}

fn permits(text: &str) -> std::result::Result<(u32, u32), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(own, limit)| Some((own.parse().ok()?, limit.parse().ok()?)));
    parsed.ok_or_else(|| "permits are two numbers, those to take and all of them: 1/4".to_owned())
}

impl LockOptions {
    fn lock(&self, client: &Redlock, name: &str) -> Lock {
        let mut lock = match self.permits {
            Some((permits, limit)) => client.semaphore(name, limit).permits(permits),
            None if self.shared => client.rwlock(name).read(),
            None => client.lock(name),
        };
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(time) = self.min_hold {
            lock = lock.min_hold(time);
        }
        lock = match &self.label {
            Some(label) => lock.label(label),
            None => lock.label_host(),
        };
        let wait = if self.no_wait { Some(Duration::ZERO) } else { self.wait };
        lock.wait(wait).max_hold(self.max_hold).fencing(self.fencing)
    }
}

pub(crate) async fn run(args: Args) -> Status {
    let report = Report { json: args.command.json };
    let client = match args.connection.client() {
        Ok(client) => client,
        Err(error) => return report.failure(&error),
    };
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            print_message(&format!("cannot catch signals: {error}"));
            return status::INTERNAL;
        }
    };
    let run = Run { args, client, report, signals };
    run.run().await
}

/// One run of a command.
struct Run {
    args: Args,
    client: Redlock,
    report: Report,
    signals: Signals,
}

impl Run {
    async fn run(mut self) -> Status {
        let lock = self.args.lock.lock(&self.client, &self.args.name);
        let began = Instant::now();
        let conflict = Status::from_code(self.args.command.conflict_exit_code);
        // Of a semaphore, another permit may be free.
        let can_be_nested = self.args.lock.permits.is_none();
        let (name, shared) = (&*self.args.name, self.args.lock.shared);
        let acquire = async {
            if can_be_nested && nested::is_own(&lock, name, shared, self.report).await {
                return None;
            }
            Some(waiting::acquire(&lock, self.report).await)
        };
        let acquired = {
            tokio::select! {
                biased;
                acquired = acquire => Ok(acquired),
                signal = self.signals.next_end() => Err(signal),
            }
        };
        let acquired = match acquired {
            Ok(Some(acquired)) => acquired,
            Ok(None) => return conflict,
            Err(signal) => {
                self.shut_down().await;
                return Status::by_signal(signal);
            }
        };
        match acquired {
            Ok(lease) => {
                self.report_acquired(&lease, began.elapsed());
                self.run_command(lease).await
            }
            Err(error) => {
                // The deletes of a last attempt may be under way.
                self.shut_down().await;
                match self.report.failure(&error) {
                    CONFLICT => conflict,
                    status => status,
                }
            }
        }
    }

    fn report_acquired(&self, lease: &Lease, waited: Duration) {
        let fencing = lease.fencing_token().ok();
        let fields = json!({
            "name": self.args.name,
            "key": lease.key(),
            "fencing_token": fencing,
            "waited": seconds(Some(waited)),
            "ttl": seconds(Some(lease.ttl())),
        });
        self.report.event("acquired", fields);
    }

    /// Runs the command, and releases the lock.
    async fn run_command(mut self, lease: Lease) -> Status {
        let on_lost = self.args.command.on_lost;
        let child =
            Child::start(&self.args.words, &self.environment(&lease), on_lost.signal_of_a_death());
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                self.undo(lease).await;
                let command = self.args.words[0].to_string_lossy();
                let message = format!("cannot run {command}: {error}");
                self.report.problem(
                    "failed",
                    json!({ "code": "command", "message": message }),
                    &message,
                );
                return status::CANNOT_RUN;
            }
        };
        let supervision = Supervision::new(child, lease.handle(), on_lost, self.args.command.grace);
        let ended = supervision.run(&mut self.signals, self.report).await;
        self.report_ended(&ended);
        let lost = self.release(lease).await || ended.lost;
        if lost { status::LOST } else { ended.status() }
    }

    fn report_ended(&self, ended: &Ended) {
        self.report
            .event("exited", json!({ "status": ended.exit.code(), "signal": ended.exit.signal() }));
    }

    /// What the command sees of its lock.
    fn environment(&self, lease: &Lease) -> [(&'static str, Option<String>); 3] {
        [
            ("REDLOCK_NAME", Some(self.args.name.clone())),
            ("REDLOCK_TOKEN", Some(lease.token().to_owned())),
            // Without fencing, that of an outer lock would be misleading.
            ("REDLOCK_FENCING_TOKEN", lease.fencing_token().ok().map(|token| token.to_string())),
        ]
    }

    /// Releases the lock. Returns true if it was already lost.
    async fn release(&mut self, lease: Lease) -> bool {
        let released = tokio::select! {
            biased;
            released = lease.release() => released,
            // The server does not reply, and the caller does not want to wait for it.
            _ = self.signals.next_end() => {
                let message = "a signal ended the wait for the release, so the lock may end with its TTL";
                self.report.problem("unreleased", json!({ "message": message }), message);
                return false;
            }
        };
        self.report_released(&released)
    }

    /// Releases a lock under which nothing ran, so that `--min-hold` does not keep it.
    async fn undo(&self, lease: Lease) {
        ffi::undo(&lease);
        let released = self.client.shutdown(SHUTDOWN).await;
        self.report_released(&released.map(drop));
    }

    fn report_released(&self, released: &Result<()>) -> bool {
        let Err(error) = released else {
            self.report.event("released", json!({ "name": self.args.name }));
            return false;
        };
        let lost = Status::of_error(error) == status::LOST;
        if !lost {
            let message = format!("not released: {error}");
            self.report.problem("unreleased", json!({ "message": message }), &message);
        }
        lost
    }

    /// Sends the deletes of an acquire that has ended without a lease.
    async fn shut_down(&self) {
        // Without a reply, the keys end with their TTL.
        let _ = self.client.shutdown(SHUTDOWN).await;
    }
}
