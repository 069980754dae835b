use std::future::poll_fn;
use std::task::Poll;

use super::{Collect, Until};
use crate::clock::{Instant, SystemClock};
use crate::error::NodeState;
use crate::node::Reply;

/// The reply to a command that is sent at the first poll, because it depends on the reply to another one.
fn second_reply() -> Reply<()> {
    let mut sent = false;
    Box::pin(poll_fn(move |cx| {
        if sent {
            return Poll::Ready(Ok(()));
        }
        sent = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }))
}

/// The first reply arrived in time, but the task could not read it.
#[tokio::test]
async fn task_that_was_blocked_beyond_its_deadline_reads_one_more_reply() {
    let mut votes = Collect::new([second_reply()].into_iter(), |()| NodeState::Granted);
    votes.until(Until::Decided, &SystemClock, Instant::default()).await;
    assert!(votes.tally.met());
}
