//! Waits for the last reply of a former owner, and for the last delete of a client.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::map::{Map, Member};
use crate::clock::Clock;
use crate::node::Node;

/// How often to check whether a map is still being read.
const READ: Duration = Duration::from_millis(1);
/// How often a server that does not reply is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// The number of failed attempts after which a server without slots is given up. A command that still arrives there
/// finds no slot. They take at least a minute.
const GONE: u32 = 600;
/// The time limit for replies.
const ANSWER: Duration = Duration::from_secs(1);

/// Completes with whether all work of a closed client has ended.
pub(super) type Ending = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Waits until a former owner has replied to every command that was sent by replaced maps.
pub(super) async fn answered(old: &[Weak<Map>], member: &Member, present: &ArcSwap<Map>) {
    // A reader of an old map may be about to send a command to the owner that it names.
    while old.iter().any(|old| old.strong_count() > 0) {
        sleep(READ).await;
    }
    let mut tries = 0;
    // The reply comes over a live connection, whose predecessor the server has closed.
    while member.node.drained().await.is_err() {
        let slots = member.address.as_ref().is_some_and(|address| present.load().has(address));
        tries += 1;
        if !slots && tries > GONE {
            return;
        }
        sleep(AGAIN).await;
    }
}

/// After the client is gone, returns whether no command is under way to the members and no delete is pending.
pub(super) async fn ended(members: Vec<Arc<Member>>, clock: Arc<dyn Clock>) -> bool {
    let _ = timeout(ANSWER, join_all(members.iter().map(|member| member.node.drained()))).await;
    // Commands that were redirected by then count at their new server.
    let now = clock.now();
    let over = !members.iter().any(|member| member.node.link.owes(now));
    if !over {
        sleep(AGAIN).await;
    }
    over
}

/// Never completes while the client exists.
pub(super) async fn over(ending: &mut Option<Ending>) -> bool {
    match ending {
        Some(ending) => ending.await,
        None => std::future::pending().await,
    }
}
