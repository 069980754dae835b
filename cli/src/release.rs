//! `redlock release --force`: deletes a lock of another client.

use std::io::{self, BufRead, IsTerminal, Write};

use redlock::Result;
use redlock::ffi::shown;
use serde_json::json;

use crate::connection::Subject;
use crate::report::{Report, print, print_message};
use crate::snapshot;
use crate::status::{CONFLICT, Status, USAGE};

/// Deletes a lock, also that of another client. Its holder is notified of the loss.
///
/// Use it only if the holder is known to be gone. A running holder continues until it is notified.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Required, because the lock belongs to another client
    #[arg(long, required = true)]
    force: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn release(args: Args) -> Status {
    debug_assert!(args.force, "clap requires it");
    let report = Report { json: args.json };
    delete(&args, report).await.unwrap_or_else(|error| report.failure(&error))
}

async fn delete(args: &Args, report: Report) -> Result<Status> {
    let (name, subject) = (&args.subject.name, args.subject.open()?);
    let lock = &subject.lock;
    if !args.yes {
        if !io::stdin().is_terminal() {
            print_message(
                "release asks for a confirmation, and stdin is not a terminal. Pass --yes to release without it",
            );
            return Ok(USAGE);
        }
        let found = lock.inspect().await?;
        if found.taken == 0
            && let Some(refused) = subject.refuse_semaphore(report).await
        {
            return Ok(refused);
        }
        if !is_confirmed(&format!(
            "{} is {}. Release it? [y/N] ",
            shown(name),
            snapshot::summary(&found)
        )) {
            return Ok(CONFLICT);
        }
    }
    let was_held = lock.force_release().await?;
    if !was_held && let Some(refused) = subject.refuse_semaphore(report).await {
        return Ok(refused);
    }
    if args.json {
        print(&json!({ "name": name, "released": was_held }).to_string());
    } else {
        print(&format!("{}: {}", shown(name), if was_held { "released" } else { "was free" }));
    }
    Ok(Status::SUCCESS)
}

/// Asks on the terminal. No reply is a no.
fn is_confirmed(question: &str) -> bool {
    let mut output = io::stderr();
    let _ = write!(output, "{question}").and_then(|()| output.flush());
    let mut reply = String::new();
    let read = io::stdin().lock().read_line(&mut reply).is_ok();
    read && ["y", "yes"].contains(&reply.trim().to_lowercase().as_str())
}
