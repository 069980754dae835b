use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{AFTER_BLOCK, Collect, Until};
use crate::clock::{Instant, OffsetClock};
use crate::error::NodeState;
use crate::node::Reply;

/// A reply that arrives at this poll.
fn reply_at(poll: u32) -> Reply<()> {
    let mut polls = 0;
    Box::pin(poll_fn(move |_| {
        polls += 1;
        if polls < poll { Poll::Pending } else { Poll::Ready(Ok(())) }
    }))
}

/// Waits for a minute, and is blocked for this much longer. Then it is polled at the end of each of these times.
/// Returns whether a quorum granted, or `None` if it waits on.
fn granted_after_a_block(late: Duration, poll: u32, times: &[Duration]) -> Option<bool> {
    const LIMIT: Duration = Duration::from_secs(60);
    let clock = OffsetClock::standing_still();
    let mut votes = Collect::new([reply_at(poll)].into_iter(), |()| NodeState::Granted);
    let ended = {
        let mut until = pin!(votes.until(Until::Decided, &clock, Instant::default() + LIMIT));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(until.as_mut().poll(&mut cx).is_pending());
        clock.advance(LIMIT + late);
        let mut times = times.iter();
        loop {
            let ended = until.as_mut().poll(&mut cx).is_ready();
            match times.next() {
                Some(time) if !ended => clock.advance(*time),
                _ => break ended,
            }
        }
    };
    ended.then(|| votes.tally.met())
}

/// The first reply of a node arrived in time, but the task could not read it. The next one arrives at a later poll.
#[test]
fn task_that_was_blocked_beyond_its_deadline_reads_one_more_reply() {
    for late in [AFTER_BLOCK * 9, AFTER_BLOCK, AFTER_BLOCK / 9] {
        let half = late.min(AFTER_BLOCK) / 2;
        let granted = |poll, times: &[Duration]| granted_after_a_block(late, poll, times);
        assert_eq!(granted(2, &[]), Some(true), "it arrived before the clock was read");
        assert_eq!(granted(3, &[half]), Some(true));
        assert_eq!(granted(9, &[half]), None);
        assert_eq!(granted(9, &[half, half + Duration::from_nanos(1)]), Some(false), "once");
    }
    assert_eq!(granted_after_a_block(Duration::ZERO, 9, &[]), Some(false), "not blocked");
}
