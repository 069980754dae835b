//! A command under way, from its submission to its reply. Plain data.
//!
//! [`super::sending`] sends it, and [`super::replies`] handles its reply.

use std::sync::{Arc, Weak};

use redis::Value;
use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::Fault;
use crate::node::redis::commands::command::{
    ASKING, Combinable, Command, Expects, Purpose, Redirects, UNTRACKED,
};
use crate::node::redis::commands::reply;
use crate::runtime::UnderWay;

/// A command that was passed to the connection and has no reply yet.
pub(crate) struct InFlight {
    /// The command, which may have to be sent again.
    pub(crate) command: Command,
    /// Receives the reply. Closed when the caller no longer waits, and a first vote is then not sent any more.
    pub(crate) reply_to: oneshot::Sender<Result<Value, Fault>>,
    /// The redirects so far.
    pub(crate) redirects: Redirects,
    /// Whether it was sent again after the server had lost the scripts. This is done once.
    pub(crate) again: bool,
    /// Whether the `SET` succeeded, after the first of two replies.
    pub(crate) set: Option<bool>,
    /// When replicas and disks must have confirmed a grant.
    pub(crate) confirm_by: Option<Instant>,
    /// Whether it is a delete of a vote that was never sent, so that it need not become pending.
    pub(crate) unneeded: bool,
    /// Counts a delete for its node until it has its reply, is redirected or becomes pending.
    counted: Option<Arc<()>>,
    /// Counts a redirected delete until any server has confirmed it.
    rerouted: Option<Arc<()>>,
    /// Makes the end of the process wait. Used for deletes only, because deletes remove whatever other commands leave
    /// behind.
    _under_way: Option<UnderWay>,
}

impl InFlight {
    /// Creates a command under way. `reply_to` receives its reply.
    pub(crate) fn new(command: Command, reply_to: oneshot::Sender<Result<Value, Fault>>) -> Self {
        let delete = matches!(command.purpose, Purpose::Delete { .. });
        let under_way = delete.then(UnderWay::count_delete);
        Self {
            command,
            reply_to,
            redirects: Redirects::default(),
            again: false,
            set: None,
            confirm_by: None,
            unneeded: false,
            counted: None,
            rerouted: None,
            _under_way: under_way,
        }
    }

    pub(crate) fn without_caller(command: Command) -> Self {
        Self::new(command, oneshot::channel().0)
    }

    /// Counts a delete from now on, and no longer for another node.
    pub(crate) fn count(&mut self, counter: &Arc<()>) {
        if self.is_delete() {
            self.counted = Some(Arc::clone(counter));
        }
    }

    /// Ends the count of a delete that has its reply or is not needed.
    pub(crate) fn stop_counting(&mut self) {
        (self.counted, self.rerouted) = (None, None);
    }

    pub(crate) fn is_delete(&self) -> bool {
        matches!(self.command.purpose, Purpose::Delete { .. })
    }

    /// Called at a redirect. From now on the cluster counts a delete instead of its node.
    pub(crate) fn count_rerouted(&mut self, counter: &Weak<()>) {
        if self.is_delete() {
            self.rerouted = self.rerouted.take().or_else(|| counter.upgrade());
            self.counted.take_if(|_| self.rerouted.is_some());
        }
    }

    /// Discards all replies, because the command is sent again to another server.
    pub(crate) fn forget_replies(&mut self) {
        (self.again, self.set, self.unneeded) = (false, None, false);
    }

    /// Whether the value can be the reply, or the one of its two that is due.
    pub(super) fn fits(&self, value: &Value) -> bool {
        match &self.command.expects {
            // The first of two replies. That of `CLIENT CACHING` has the same form as that of `SET`.
            _ if self.has_two_replies() => reply::sets(value),
            Expects::Anything => true,
            Expects::Echo(echo) => reply::echoes(value, echo),
            Expects::Token(token) => reply::says_ours(value, token),
            Expects::Owner => reply::owns(value),
            Expects::Durable(wanted) => wanted.fits(value),
        }
    }

    /// Takes the first of two replies. Returns the last one.
    pub(crate) fn last_reply(&mut self, value: Value) -> Option<Value> {
        if self.has_two_replies() {
            self.set = Some(value == Value::Okay);
            return None;
        }
        Some(value)
    }

    /// Returns the prefix, which has a separate reply.
    pub(crate) fn before(&self) -> &'static [u8] {
        match (self.redirects.asking, self.command.untracked) {
            (true, _) => ASKING,
            (false, true) => UNTRACKED,
            (false, false) => &[],
        }
    }

    /// Returns how it can be combined with others. A command that is sent again, or after a prefix, cannot.
    pub(super) fn combinable(&self) -> Option<Combinable> {
        self.command.combinable.filter(|_| !self.again && self.before().is_empty())
    }

    pub(crate) fn length(&self) -> usize {
        self.before().len() + self.command.bytes.len()
    }

    /// Whether a caller waits for its reply.
    pub(crate) fn has_caller(&self) -> bool {
        !self.reply_to.is_closed()
    }

    /// Whether its effect is no longer wanted, because no caller waits for it.
    pub(crate) fn is_unwanted(&self) -> bool {
        !self.has_caller() && self.command.purpose.requires_waiting_caller(self.redirects)
    }

    /// Whether it is sent again if the server did not run it: always a delete, and others if their callers wait.
    pub(super) fn must_be_repeated(&self) -> bool {
        self.is_delete() || self.has_caller()
    }

    /// Whether the first of its two replies is still to come.
    fn has_two_replies(&self) -> bool {
        let two = !self.before().is_empty() || matches!(self.command.expects, Expects::Owner);
        two && self.set.is_none()
    }
}
