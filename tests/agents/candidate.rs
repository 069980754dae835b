//! A candidate of an election in Rust, with a line for the begin and the end of each term. `README.md` describes them.

use std::time::Duration;

use redlock::{Error, Redlock};
use serde_json::json;

use crate::{now, print_reply};

/// Prints the end of a body, however it ends.
struct Term {
    last: i64,
}

impl Drop for Term {
    fn drop(&mut self) {
        print_reply(&json!({"sign": "ended", "at": now(), "last": self.last}));
    }
}

/// Campaigns forever.
pub(crate) async fn run(nodes: &str, name: &str, ttl: Duration) -> Result<(), Error> {
    let client = Redlock::builder(nodes.split(',')).restart_guard(Duration::ZERO).build()?;
    let leader = client.leader(name).ttl(ttl).fencing(true).label("rust");
    print_reply(&json!({"sign": "campaigns", "at": now()}));
    let led = leader.run(async |lease| {
        let mut term = Term { last: now() };
        let fence = lease.fencing_token()?;
        print_reply(&json!({"sign": "leads", "at": now(), "fence": fence}));
        loop {
            let asked = now();
            if lease.is_held() {
                term.last = asked;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    led.await
}
