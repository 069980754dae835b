//! `redlock inspect`: the holder of a lock, and the reply of each node.

use redlock::Result;
use redlock::ffi::shown;

use crate::connection::Subject;
use crate::report::{Report, print};
use crate::snapshot;
use crate::status::Status;

/// Shows the holder of a lock, for how long, and what each node reports.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn inspect(args: Args) -> Status {
    let report = Report { json: args.json };
    print_inspection(&args, report).await.unwrap_or_else(|error| report.failure(&error))
}

async fn print_inspection(args: &Args, report: Report) -> Result<Status> {
    let subject = args.subject.open()?;
    let found = subject.lock.inspect().await?;
    if found.taken == 0
        && let Some(refused) = subject.refuse_semaphore(report).await
    {
        return Ok(refused);
    }
    if args.json {
        print(&snapshot::object(&args.subject.name, &found).to_string());
        return Ok(Status::SUCCESS);
    }
    print(&format!("{}: {}", shown(&args.subject.name), snapshot::summary(&found)));
    found.nodes.iter().for_each(|node| print(&snapshot::node_line(node)));
    Ok(Status::SUCCESS)
}
