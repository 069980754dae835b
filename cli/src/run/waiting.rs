//! Acquires the lock, and shows meanwhile for whom it waits.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use redlock::{Lease, Lock, Result};
use serde_json::json;

use crate::report::Report;
use crate::snapshot::{holder, seconds, summary};
use crate::times;

/// When the first line is shown. Most acquires take less.
const FIRST: Duration = Duration::from_millis(300);
/// How often the line is updated.
const INTERVAL: Duration = Duration::from_secs(1);

/// Acquires the lock. On a terminal, one line shows its holder until then. Programs get an event for each holder.
pub(super) async fn acquire(lock: &Lock, report: Report) -> Result<Lease> {
    let acquired = lock.acquire();
    if !report.json && !io::stderr().is_terminal() {
        return acquired.await;
    }
    tokio::select! {
        biased;
        acquired = acquired => acquired,
        never = show(lock, report) => match never {},
    }
}

async fn show(lock: &Lock, report: Report) -> Infallible {
    let line = if report.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let line = line.with_style(
        ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let _cleared = Cleared(&line);
    let (began, mut shown) = (Instant::now(), None);
    tokio::time::sleep(FIRST).await;
    loop {
        // An error is that of the acquire too, which reports it.
        if let Ok(found) = lock.inspect().await {
            let name = lock.names().join(", ");
            let waited = times::shown(began.elapsed());
            line.set_message(format!(
                "waiting for {}: {} (waited {waited})",
                redlock::ffi::shown(&name),
                summary(&found)
            ));
            line.tick();
            let holder = holder(&found);
            if found.held && shown != Some(holder.clone()) {
                let left = seconds(found.remaining);
                report
                    .event("waiting", json!({ "name": name, "holder": holder, "remaining": left }));
                shown = Some(holder);
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Removes the line at the end, however it comes.
struct Cleared<'a>(&'a ProgressBar);

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
