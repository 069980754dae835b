//! `redlock doctor`: looks at the servers, tries a lock, and explains what is wrong for locks.
//!
//! [`facts`] asks the servers, and [`live`] tries a lock. [`findings`] has the table of all checks, which judge the
//! facts without asking anything.

mod facts;
mod findings;
mod live;
mod node;
mod permissions;
mod rights;
mod server;
mod set;
mod storage;
#[cfg(test)]
mod tests;

use std::time::Duration;

use redlock::{Redlock, Result};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::report::{Report, print};
use crate::snapshot::seconds;
use crate::status::Status;
use crate::times;
use facts::{Facts, NodeFacts, gather, settings};
use findings::{Finding, Severity, findings};

/// Looks at each server and at all of them together, tries a lock, and explains what is wrong.
///
/// Exit status: 0 without a finding or with notes only, 1 with a warning, 2 with an error. It acquires and deletes
/// locks with random names only.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The nodes, instead of those of --url and the environment
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// The TTL of your locks
    #[arg(long, value_name = "TIME", value_parser = times::parse, default_value = "10s", allow_negative_numbers = true)]
    ttl: Duration,
    /// Prints the findings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn doctor(args: Args) -> Status {
    let report = Report { json: args.json };
    let facts = match examine(&args).await {
        Ok(facts) => facts,
        Err(error) => return report.failure(&error),
    };
    let findings = findings(&facts);
    if args.json {
        print(&object(&facts, &findings).to_string());
    } else {
        show(&facts, &findings);
    }
    match findings.iter().map(|finding| finding.severity).max() {
        None | Some(Severity::Note) => Status::SUCCESS,
        Some(Severity::Warning) => Status::from_code(1),
        Some(Severity::Error) => Status::from_code(2),
    }
}

async fn examine(args: &Args) -> Result<Facts> {
    let connection = args.connection.at(&args.urls);
    let client = connection.client()?;
    let settings = settings(&client, args.ttl);
    let name = format!("redlock-doctor-{}", nonce());
    check_ttl(args.ttl, settings.guard).await?;
    let urls = connection.urls()?;
    let mut facts = gather(&client, &urls, &name, settings).await?;
    for (at, (node, url)) in facts.nodes.iter_mut().zip(&urls).enumerate() {
        if node.latency.is_some() {
            // A guard of the set does not matter for a node alone.
            let client = connection.client_of(url)?;
            let other = connection.client_of(url)?;
            let name = format!("{name}-{at}");
            node.trial = Some(live::trial([&client, &other], &name, args.ttl).await);
        }
    }
    if facts.nodes.len() > 1 && facts.ready_in == Some(Duration::ZERO) {
        let other = connection.client()?;
        facts.trial = Some(live::trial([&client, &other], &name, args.ttl).await);
    }
    Ok(facts)
}

/// Refuses a wrong TTL before anything is sent to a server.
async fn check_ttl(ttl: Duration, guard: Duration) -> Result<()> {
    let client = Redlock::builder(["memory://"]).restart_guard(guard).build()?;
    client.lock("ttl").ttl(ttl).acquire().await?.release().await
}

fn show(facts: &Facts, findings: &[Finding]) {
    facts.nodes.iter().for_each(|node| print(&node_line(node)));
    for finding in findings {
        let names = [&finding.node, &finding.server, &Some(finding.what.clone())];
        let what = names.into_iter().flatten().cloned().collect::<Vec<_>>().join(": ");
        print(&format!("\n{}: {what} [{}]", finding.severity.word(), finding.code));
        print(&format!("  why: {}", finding.why));
        print(&format!("  fix: {}", finding.fix));
    }
    let count = |severity: Severity| {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        format!("{count} {}{}", severity.word(), if count == 1 { "" } else { "s" })
    };
    let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note].map(count);
    print(&format!("\n{errors}, {warnings}, {notes}"));
}

/// A node in one line.
fn node_line(node: &NodeFacts) -> String {
    let latency = node.latency.map_or_else(|| "grants no lock".to_owned(), milliseconds);
    let versions = node.known_servers().iter().map(server::version).collect::<Vec<_>>().join(", ");
    let versions = if versions.is_empty() { String::new() } else { format!("  {versions}") };
    format!("{}{versions}  {latency}", node.url)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn object(facts: &Facts, findings: &[Finding]) -> Value {
    let nodes = facts.nodes.iter().map(|node| {
        let servers = node.servers.iter().flatten().map(|server| {
            json!({ "address": server.address, "version": server::version(server), "resp3": server.resp3 })
        });
        json!({
            "url": node.url,
            "latency": seconds(node.latency),
            "ready_in": seconds(node.ready_in),
            "error": node.error,
            "servers": servers.collect::<Vec<_>>(),
        })
    });
    let findings = findings.iter().map(|finding| {
        json!({
            "severity": finding.severity.word(),
            "code": finding.code,
            "node": finding.node,
            "server": finding.server,
            "what": finding.what,
            "why": finding.why,
            "fix": finding.fix,
        })
    });
    json!({
        "ready_in": seconds(facts.ready_in),
        "nodes": nodes.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
    })
}

/// Digits that no other run of this command has.
fn nonce() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}-{:x}", std::process::id(), now.unwrap_or_default().as_nanos())
}
