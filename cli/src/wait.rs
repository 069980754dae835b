//! `redlock wait`: waits until a lock is free, without acquiring it.

use std::time::{Duration, Instant};

use redlock::ffi::shown;
use redlock::{ErrorKind, Inspection, Result};
use serde_json::json;

use crate::connection::Subject;
use crate::report::{Report, Silence};
use crate::snapshot;
use crate::status::{CONFLICT, Status};
use crate::times;

/// How long to wait before the next look. A lock that is about to end is looked at sooner.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// Waits until no client holds a lock. Does not acquire it.
///
/// A client may acquire the lock as soon as it is free. Use `redlock run` to be the only one.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// How long to wait [default: forever]
    #[arg(short = 'w', long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Exit status if the lock is still held then
    #[arg(short = 'E', long, value_name = "STATUS", default_value_t = CONFLICT.code())]
    conflict_exit_code: u8,
    /// Prints events as JSON, one on each line of stderr
    #[arg(long)]
    json: bool,
}

pub(crate) async fn wait(args: Args) -> Status {
    let report = Report { json: args.json };
    until_free(&args, report).await.unwrap_or_else(|error| report.failure(&error))
}

async fn until_free(args: &Args, report: Report) -> Result<Status> {
    let subject = args.subject.open()?;
    let (began, mut silence) = (Instant::now(), Silence::new(report));
    loop {
        let found = match subject.lock.inspect().await {
            Ok(found) if !found.held => {
                let refused = subject.refuse_semaphore(report).await;
                return Ok(refused.unwrap_or_else(|| free(args, report)));
            }
            // Servers that restart are waited for too.
            Err(error) if error.kind() != ErrorKind::Unavailable => return Err(error),
            found => found,
        };
        let (least, most) = RETRY_PAUSES;
        let left = found.as_ref().ok().and_then(|found| found.remaining);
        let mut pause = left.unwrap_or(most).clamp(least, most);
        if let Some(timeout) = args.timeout {
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return found.map(|found| still_held(args, report, &found));
            }
            pause = pause.min(left);
        }
        silence.record_reply(found.as_ref().err());
        tokio::time::sleep(pause).await;
    }
}

fn free(args: &Args, report: Report) -> Status {
    report.event("free", json!({ "name": args.subject.name }));
    Status::SUCCESS
}

fn still_held(args: &Args, report: Report, found: &Inspection) -> Status {
    let name = &args.subject.name;
    let message = format!("{} is still {}", shown(name), snapshot::summary(found));
    report.problem(
        "failed",
        json!({ "code": "timeout", "name": name, "message": message }),
        &message,
    );
    Status::from_code(args.conflict_exit_code)
}
