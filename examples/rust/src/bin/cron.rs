//! A cron job on several hosts, without a runtime: one of them does it, the others find it taken.
//!
//! `REDLOCK_NODES="redis://..." cron`; exits with 0 whether it did the work or somebody else does.

use std::time::Duration;

use redlock::{Error, Redlock};

fn main() -> Result<(), Error> {
    let client = Redlock::from_env()?;
    // For longer than the hosts' clocks are apart, as one of them may be done before another begins.
    let tick =
        client.lock("nightly").ttl(Duration::from_secs(60)).min_hold(Duration::from_secs(30));
    let Some(lease) = tick.try_acquire_blocking()? else {
        println!("another host does it");
        return Ok(());
    };
    for part in 1..=3 {
        // Before each step that others would see: a host that was suspended must not go on.
        lease.ensure_held()?;
        println!("part {part} of 3");
    }
    lease.release_blocking()
}
