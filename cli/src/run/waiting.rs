//! Acquires the lock, and shows meanwhile what it waits for.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use redlock::{Lease, Lock, Result};
use serde_json::json;

use crate::report::{Report, Silence};
use crate::snapshot::{holder, seconds, summary};
use crate::times;

/// When the lock is looked at first. Most acquires take less.
const FIRST: Duration = Duration::from_millis(300);
/// How often the line is updated.
const WAIT_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How often to look whether the servers reply, if nothing else is shown.
const UNSEEN_AFTER: Duration = Duration::from_secs(5);

/// Acquires the lock. On a terminal, one line shows its holder until then. Programs get an event for each holder. If
/// the servers do not reply, a message says so in every case.
pub(super) async fn acquire(lock: &Lock, report: Report) -> Result<Lease> {
    let acquired = lock.acquire();
    tokio::select! {
        biased;
        acquired = acquired => acquired,
        never = show(lock, report) => match never {},
    }
}

async fn show(lock: &Lock, report: Report) -> Infallible {
    let has_line = !report.json && io::stderr().is_terminal();
    let line = if has_line { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let line = line.with_style(
        ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let _cleared = Cleared(&line);
    let (began, mut shown, mut silence) = (Instant::now(), None, Silence::new(report));
    tokio::time::sleep(FIRST).await;
    loop {
        let found = lock.inspect().await;
        // An error that ends the acquire is reported by it.
        line.suspend(|| silence.record_reply(found.as_ref().err()));
        if let Ok(found) = &found {
            let name = lock.names().join(", ");
            let waited = times::shown(began.elapsed());
            line.set_message(format!(
                "waiting for {}: {} (waited {waited})",
                redlock::ffi::shown(&name),
                summary(found)
            ));
            line.tick();
            let holder = holder(found);
            if found.held && shown != Some(holder.clone()) {
                let left = seconds(found.remaining);
                report
                    .event("waiting", json!({ "name": name, "holder": holder, "remaining": left }));
                shown = Some(holder);
            }
        }
        let is_seen = has_line || report.json || found.is_err();
        tokio::time::sleep(if is_seen { WAIT_REPORT_INTERVAL } else { UNSEEN_AFTER }).await;
    }
}

/// Removes the line at the end, however it comes.
struct Cleared<'a>(&'a ProgressBar);

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
