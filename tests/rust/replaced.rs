//! A node of a quorum whose server is replaced, as behind a proxy or after a failover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redlock::ErrorKind;
use redlock::testing::{Clock, Instant, Sleep, SystemClock};

use crate::support::{Gateway, Verdict, builder, servers};

/// A clock that stands still at this number of seconds.
#[derive(Clone, Default)]
struct StoppedClock(Arc<AtomicU64>);

impl Clock for StoppedClock {
    fn now(&self) -> Instant {
        Instant::from_start(Duration::from_secs(self.0.load(Ordering::SeqCst)))
    }

    fn wall_micros(&self) -> u64 {
        SystemClock.wall_micros()
    }

    /// Takes the real time, so that a retry continues. It does not advance the clock.
    fn sleep_until(&self, at: Instant) -> Sleep {
        SystemClock.sleep_until(SystemClock.now() + at.since(self.now()))
    }
}

/// What each server reports. All have run for long, so the replacement is not a restart.
const FIRST: &str = "$42\r\nrun_id:one\r\nuptime_in_seconds:1000000000\r\n\r\n";
const SECOND: &str = "$42\r\nrun_id:two\r\nuptime_in_seconds:1000000000\r\n\r\n";
const OTHERS: [&str; 2] = [
    "$42\r\nrun_id:six\r\nuptime_in_seconds:1000000000\r\n\r\n",
    "$42\r\nrun_id:ten\r\nuptime_in_seconds:1000000000\r\n\r\n",
];

/// Other clients may still use the previous server. If both counted, the node would vote twice.
#[tokio::test]
async fn replacement_confirms_no_lease_at_first() {
    let mut nodes = servers(3);
    let replaced = Arc::new(AtomicBool::new(false));
    let gateway = |at: usize| {
        let replaced = Arc::clone(&replaced);
        Gateway::to(nodes[at].port, move |words, _| match (&*words[0], at) {
            ("INFO", 0) if replaced.load(Ordering::SeqCst) => Verdict::Reply(SECOND),
            ("INFO", 0) => Verdict::Reply(FIRST),
            ("INFO", _) => Verdict::Reply(OTHERS[at - 1]),
            _ => Verdict::Pass,
        })
    };
    let gateways = [gateway(0), gateway(1), gateway(2)];
    let clock = StoppedClock::default();
    let redlock = builder(gateways.iter().map(Gateway::url)).clock(Arc::new(clock.clone()));
    let redlock = redlock.build().unwrap();
    let minute = Duration::from_secs(60);
    let lease = redlock.lock("job").ttl(minute).acquire().await.unwrap();
    nodes[1].kill();
    replaced.store(true, Ordering::SeqCst);
    nodes[0].ask("CLIENT KILL TYPE normal");
    // Until the client has connected again, the node fails for another reason.
    loop {
        let error = lease.extend(minute).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let why = error.nodes()[0].error.clone().unwrap_or_default();
        if why.contains("it replaced another server") {
            break;
        }
    }
    assert!(lease.is_held());
    clock.0.store(2, Ordering::SeqCst);
    lease.extend(minute).await.unwrap();
}
