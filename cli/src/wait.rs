//! `redlock wait`: waits until a lock is free, without acquiring it.

use std::time::{Duration, Instant};

use redlock::ffi::shown;
use redlock::{Inspection, Result};
use serde_json::json;

use crate::connection::Subject;
use crate::report::Report;
use crate::snapshot;
use crate::status::{CONFLICT, Status};
use crate::times;

/// How long to wait before the next look. A lock that is about to end is looked at sooner.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

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
    let last = match until_free(&args).await {
        Ok(last) => last,
        Err(error) => return report.failure(&error),
    };
    let Some(found) = last else {
        report.event("free", json!({ "name": args.subject.name }));
        return Status::SUCCESS;
    };
    let name = &args.subject.name;
    let message = format!("{} is still {}", shown(name), snapshot::summary(&found));
    report.problem(
        "failed",
        json!({ "code": "timeout", "name": name, "message": message }),
        &message,
    );
    Status::of(args.conflict_exit_code)
}

/// Returns `None` once the lock is free, or the last snapshot at the end of the time.
async fn until_free(args: &Args) -> Result<Option<Inspection>> {
    let lock = args.subject.lock()?;
    let began = Instant::now();
    loop {
        let found = lock.inspect().await?;
        if !found.held {
            return Ok(None);
        }
        let (least, most) = PAUSES;
        let mut pause = found.remaining.unwrap_or(most).clamp(least, most);
        if let Some(timeout) = args.timeout {
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(Some(found));
            }
            pause = pause.min(left);
        }
        tokio::time::sleep(pause).await;
    }
}
