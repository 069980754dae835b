//! What is asked, on its way to a connection: first in, first out.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::in_flight::InFlight;
use super::lane::Lane;
use crate::exit;
use crate::foreground::{self, OnRuntime};

/// The asking end. Its last copy's end is the client's.
#[derive(Clone)]
pub(super) struct Queue(Arc<Sender>);

struct Sender {
    /// Without a bound: who asks has a deadline, and a full connection takes no more by itself ([`super::pipeline`]).
    commands: Option<UnboundedSender<InFlight>>,
    lane: Arc<Lane>,
    /// The runtime whose tasks wait by themselves.
    runtime: Option<Arc<OnRuntime>>,
}

/// A queue, and the connection that it leads to.
pub(super) fn queue(
    runtime: Option<Arc<OnRuntime>>,
) -> (Queue, UnboundedReceiver<InFlight>, Arc<Lane>) {
    let (commands, taken) = unbounded_channel();
    let lane = Arc::new(Lane::new());
    let weak = Arc::downgrade(&lane);
    exit::flush_at_exit(weak);
    let sender = Sender { commands: Some(commands), lane: Arc::clone(&lane), runtime };
    (Queue(Arc::new(sender)), taken, lane)
}

impl Queue {
    /// Asked from now on, behind everything that was asked before.
    pub(super) fn put(&self, in_flight: InFlight) {
        let Some(commands) = &self.0.commands else { return };
        // It can fail only when the connection is gone for good; the dropped answer says so.
        let _ = commands.send(in_flight);
        let Sender { lane, runtime, .. } = &*self.0;
        // Who waits writes it by itself, with whatever else is asked until then.
        let seen_to =
            foreground::asked(lane) || runtime.as_ref().is_some_and(|runtime| runtime.asked(lane));
        if !seen_to {
            lane.call();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // In this order: who is called finds that nobody is left.
        self.commands = None;
        self.lane.call();
    }
}
