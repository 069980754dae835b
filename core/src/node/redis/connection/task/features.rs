//! Checks on a second connection whether the server supports more than the open connection uses.
//!
//! Servers and proxies that close a connection during its handshake may do so for any reason. The client then omits the
//! commands that it had sent. A server's uptime may be unreadable for a while. Without this check, the node could not
//! vote or receive notifications for as long as the connection lives.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};

use crate::clock::jittered;
use crate::node::redis::connect::login::Without;
use crate::node::redis::connect::{Target, greet};
use crate::node::redis::sentinel::Found;

/// The pause before the first check, and the longest one. It doubles with each check.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The checks of one connection. `None` if its handshake left nothing in doubt, or once a check has succeeded.
pub(crate) struct FeatureCheck(Option<BoxFuture<'static, ()>>);

impl FeatureCheck {
    /// Starts the checks for a connection without these features, if they are in doubt.
    pub(crate) fn new(target: &Target, found: &Found, without: Without) -> Self {
        let check = || check(target.clone(), found.clone(), without).boxed();
        Self(without.doubtful.then(check))
    }

    /// Waits until a new connection would use more features. Dropping the future loses no progress.
    pub(crate) async fn succeeds(&mut self) {
        let Some(check) = &mut self.0 else { return pending().await };
        check.await;
        self.0 = None;
    }
}

/// Performs whole handshakes until one has more features. Errors do not matter, because the open connection works.
async fn check(target: Target, found: Found, without: Without) {
    let (mut pause, longest) = PAUSE;
    loop {
        // At least half of the pause is random, so that many clients do not connect at the same time.
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(longest);
        let greeted = timeout(found.endpoint.connect_timeout, greet(&target, &found)).await;
        if let Ok(Ok(greeting)) = greeted
            && greeting.without.improves(without)
        {
            return;
        }
    }
}
