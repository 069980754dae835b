//! A cron job on several hosts, without a runtime. One of them does the work, and the others find the lock held.
//!
//! `REDLOCK_NODES="redis://..." cron` exits with 0 if it or another host did the work.

use std::time::Duration;

use redlock::{Error, Redlock};

fn main() -> Result<(), Error> {
    let client = Redlock::from_env()?;
    // Longer than the clock skew between the hosts, because one host may be done before another begins.
    let tick =
        client.lock("nightly").ttl(Duration::from_secs(60)).min_hold(Duration::from_secs(30));
    let Some(lease) = tick.try_acquire_blocking()? else {
        println!("another host does it");
        return Ok(());
    };
    for part in 1..=3 {
        // Before each externally visible step, because a host that was suspended must not continue.
        lease.ensure_held()?;
        println!("part {part} of 3");
    }
    lease.release_blocking()
}
