//! Sends a command again while servers redirect it. The simulation uses it too.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::node::Fault;
use crate::node::redis::protocol::redirects::pause;

/// Sends a command again while servers redirect it, for as long as its caller waits.
pub(crate) async fn follow<T, R>(
    clock: Arc<dyn Clock>,
    timeout: Duration,
    mut reply: R,
    send: impl Fn() -> R,
) -> Result<T, Fault>
where
    R: Future<Output = Result<T, Fault>>,
{
    let mut since = None;
    loop {
        let fault = match reply.await {
            Err(fault) if fault.is_redirect() => fault,
            result => return result,
        };
        let now = clock.now();
        let since = *since.get_or_insert(now);
        if now.since(since) >= timeout {
            return Err(fault);
        }
        clock.sleep_until(now + pause(since, now)).await;
        reply = send();
    }
}
