//! When something is over: a former owner's last answer, and a client's last delete.

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

/// How often is looked whether a map is still being read.
const READ: Duration = Duration::from_millis(1);
/// How often a server is asked again that does not answer.
const AGAIN: Duration = Duration::from_millis(100);
/// A server that has no slots any more and cannot be reached so often is not waited for: what may still arrive there
/// finds no slot. A minute, at least.
const GONE: u32 = 600;
/// As long as an answer may take.
const ANSWER: Duration = Duration::from_secs(1);

/// Word of whether a client's end is over.
pub(super) type Ending = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Ends once a former owner has answered everything that was asked of it by maps that are no more.
pub(super) async fn answered(old: &[Weak<Map>], member: &Member, present: &ArcSwap<Map>) {
    // Whoever still reads an old map may be about to give a command to the owner that it names.
    while old.iter().any(|old| old.strong_count() > 0) {
        sleep(READ).await;
    }
    let mut tries = 0;
    // Over a connection that lives: its predecessor was ended by the server.
    while member.node.drained().await.is_err() {
        let slots = member.address.as_ref().is_some_and(|address| present.load().has(address));
        tries += 1;
        if !slots && tries > GONE {
            return;
        }
        sleep(AGAIN).await;
    }
}

/// The client is gone: whether nothing is on its way to the members, or owed, a moment from now.
pub(super) async fn ended(members: Vec<Arc<Member>>, clock: Arc<dyn Clock>) -> bool {
    let _ = timeout(ANSWER, join_all(members.iter().map(|member| member.node.drained()))).await;
    // What was sent on to another one by then is counted there now.
    let now = clock.now();
    let over = !members.iter().any(|member| member.node.link.owes(now));
    if !over {
        sleep(AGAIN).await;
    }
    over
}

/// Never, while the client is there.
pub(super) async fn over(ending: &mut Option<Ending>) -> bool {
    match ending {
        Some(ending) => ending.await,
        None => std::future::pending().await,
    }
}
