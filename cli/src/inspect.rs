//! `redlock inspect`: who holds a lock, and what each node says.

use redlock::ffi::shown;

use crate::connection::Subject;
use crate::report::{Report, print};
use crate::snapshot;
use crate::status::Status;

/// Shows who holds a lock, for how long, and what each node reports.
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
    let found = match args.subject.lock() {
        Ok(lock) => lock.inspect().await,
        Err(error) => Err(error),
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => return report.failure(&error),
    };
    if args.json {
        print(&snapshot::object(&args.subject.name, &found).to_string());
        return Status::SUCCESS;
    }
    print(&format!("{}: {}", shown(&args.subject.name), snapshot::summary(&found)));
    found.nodes.iter().for_each(|node| print(&snapshot::node_line(node)));
    Status::SUCCESS
}
