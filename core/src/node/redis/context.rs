//! What outlives each connection to one node: where it goes, the commands for it, and the deletes it owes.
//!
//! It belongs to the connection's task alone; what the node itself may look at is in [`super::link`].

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::debts::Debts;
use super::handshake::{Greeting, guard_time};
use super::in_flight::{Expects, InFlight, Purpose};
use super::link::{Link, VotesFrom};
use super::reply;
use super::rights::Needs;
use super::route::{Finder, Found, News, Route};
use super::run_ids::RunIds;
use super::strays::{Outlet, Redirect, Stray};
use crate::clock::{Clock, Instant};
use crate::foreground::OnRuntime;
use crate::log;
use crate::node::{Fault, Watch, slot};

/// By then whoever can hear of a switch has left the old primary, which may have granted something until then.
/// Sentinels are asked every second, and tell before that. In a cluster a master that is cut off stops serving about when
/// its successor is elected.
pub(super) const HEARD: Duration = Duration::from_secs(2);

/// Where a connection goes, and what it must find there.
#[derive(Clone)]
pub(crate) struct Target {
    /// The node's URL, without its password.
    pub(crate) url: String,
    /// How the server is found, and as whom to go there.
    pub(crate) route: Route,
    /// `restart_guard`: a server younger than this takes no first vote.
    pub(crate) guard: Duration,
    /// What the server, and its user, must be able to do.
    pub(crate) needs: Needs,
    /// The servers behind the client's other nodes.
    /// One server behind two of them would vote twice.
    pub(crate) run_ids: Arc<RunIds>,
    /// The runtime whose tasks read by themselves what they wait for.
    pub(crate) runtime: Option<Arc<OnRuntime>>,
    /// The way to the cluster that the server is one of; `None`: it stands alone.
    pub(super) outlet: Option<Outlet>,
}

impl Target {
    /// A server that stands alone.
    pub(crate) fn alone(route: Route, guard: Duration, needs: Needs, run_ids: Arc<RunIds>) -> Self {
        let (url, runtime, outlet) = (route.redacted(), None, None);
        Self { url, route, guard, needs, run_ids, runtime, outlet }
    }

    /// Says it to the cluster, if there is one.
    pub(super) fn say(&self, stray: Stray) {
        if let Some(outlet) = &self.outlet {
            outlet.say(stray);
        }
    }
}

/// A connection that was opened.
pub(super) struct Opening {
    /// It is ready for locks.
    pub(super) greeting: Greeting,
    /// Nothing of the former one can arrive any more.
    pub(super) killed: bool,
    /// Where its server was found.
    pub(super) found: Found,
}

/// One node's side of all its connections.
pub(super) struct Context {
    /// Where it goes.
    pub(super) target: Target,
    /// Asked at each attempt: where that is now.
    pub(super) finder: Arc<Finder>,
    /// Word that it is another one now.
    pub(super) news: News,
    /// The client's: leases, guards and debts are all counted by it.
    pub(super) clock: Arc<dyn Clock>,
    /// Who wants to know of changes.
    pub(super) watch: Arc<Watch>,
    /// What the node may know without asking.
    pub(super) link: Arc<Link>,
    /// Closed once the client is gone.
    pub(super) commands: UnboundedReceiver<InFlight>,
    /// Deletes that no connection has had confirmed.
    pub(super) debts: Debts,
    /// The run of the server that was behind the URL last, as far as it said which; `None`: none was reached yet.
    run_id: Option<Option<String>>,
    /// Before then a server that took another's place takes no first vote.
    not_before: Option<Instant>,
}

/// Where a context is while no session has it.
pub(super) struct Home(Option<Context>);

impl Home {
    /// Nobody has it yet.
    pub(super) fn of(context: Context) -> Self {
        Self(Some(context))
    }

    /// For a session.
    pub(super) fn take(&mut self) -> Option<Context> {
        self.0.take()
    }

    /// The session is over.
    pub(super) fn put_back(&mut self, context: Context) {
        self.0 = Some(context);
    }

    /// Whether a session has it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl Deref for Home {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.0.as_ref().expect(AWAY)
    }
}

impl DerefMut for Home {
    fn deref_mut(&mut self) -> &mut Context {
        self.0.as_mut().expect(AWAY)
    }
}

/// Nobody looks for it meanwhile: whoever has it is waited for.
const AWAY: &str = "a session has the context";

impl Context {
    /// Nothing is owed, and no server was reached yet.
    pub(super) fn new(
        target: Target,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
        link: Arc<Link>,
        commands: UnboundedReceiver<InFlight>,
    ) -> Self {
        let debts = Debts::default();
        let guard = Some(target.guard).filter(|guard| !guard.is_zero());
        let old = guard.map_or(Duration::ZERO, |guard| guard_time(guard) + HEARD);
        let finder = Arc::new(Finder::new(&target.route, old));
        let (news, run_id, not_before) = (finder.news(), None, None);
        Self { target, finder, news, clock, watch, link, commands, debts, run_id, not_before }
    }

    /// A command that cannot go out: it is never queued across a reconnect, except as a debt.
    pub(super) fn refuse_unsent(&mut self, in_flight: InFlight, fault: &Fault) {
        // What reached nobody made no key: its delete, which follows, is not owed.
        self.debts.never_sent(&in_flight.command);
        self.refuse(in_flight, fault);
    }

    /// A command whose answer will not come: whether it was carried out is not known.
    /// A delete is owed, whatever became of it.
    pub(super) fn refuse(&mut self, in_flight: InFlight, fault: &Fault) {
        if let Some(outlet) = &self.target.outlet {
            outlet.owed(&in_flight);
        }
        if let Some(until) = self.debts.owe(in_flight.command, self.clock.now()) {
            self.link.owe(until);
        }
        let _ = in_flight.answer.send(Err(fault.clone()));
    }

    /// Passes a command that a cluster's server did not serve to the router. `Some`: the reply is for the caller.
    pub(super) fn send_on(&mut self, mut in_flight: InFlight, value: &Value) -> Option<InFlight> {
        let Some(outlet) = &self.target.outlet else { return Some(in_flight) };
        let Some(redirect) = Redirect::read(value) else { return Some(in_flight) };
        let unserved = redirect == Redirect::Nobody;
        let delete = matches!(in_flight.command.purpose, Purpose::Delete { .. });
        let first = matches!(in_flight.command.purpose, Purpose::FirstVote { .. });
        // A vote that made no key, for which a second question would have the same answer; or the delete of such a vote.
        let nothing = if first {
            in_flight.set != Some(true)
        } else {
            unserved && delete && self.debts.forgives(&in_flight.command)
        };
        if unserved && nothing {
            self.debts.never_sent(&in_flight.command);
            outlet.say(Stray::Told(redirect));
            if delete {
                self.link.delete_answered();
            }
            let fault = self.target.route.redact_fault(reply::unexpected(value));
            let _ = in_flight.answer.send(Err(fault));
            return None;
        }
        // A second question follows, and goes the same way.
        if matches!(in_flight.command.expects, Expects::Owner) || (unserved && !delete) {
            outlet.say(Stray::Told(redirect));
            return Some(in_flight);
        }
        if let Purpose::Force { keys, begin, .. } = &in_flight.command.purpose {
            // By what the other server says: its clock's time, or who has the key there.
            in_flight.command = begin(keys);
        }
        in_flight.forget_answers();
        in_flight.goes_astray(&outlet.astray);
        outlet.say(Stray::Redirected(in_flight, redirect));
        if delete {
            self.link.delete_answered();
        }
        None
    }

    /// Why this vote may not be given, if it may not.
    ///
    /// Looked at as it is about to be sent: what waited for a connection may wait for a server that has just
    /// restarted.
    pub(super) fn guard_fault(&self, in_flight: &InFlight) -> Option<Fault> {
        let first = matches!(in_flight.command.purpose, Purpose::FirstVote { .. });
        let slot = || in_flight.command.key().map(|key| slot(&key));
        if first { self.link.guard_fault(slot, || self.clock.now()) } else { None }
    }

    /// From when on the server takes first votes: not before it is old enough, by its own word and by ours.
    pub(super) fn votes_from(&mut self, greeting: &Greeting, found: &Found) -> VotesFrom {
        let guard = self.target.guard;
        if let Some(age) = found.primary_for() {
            // Who never saw another one does not know it for a replica that was promoted; the sentinels do.
            let old = self.clock.now() + (guard_time(guard) + HEARD).saturating_sub(age);
            self.not_before = self.not_before.max(Some(old));
        }
        let known = self.run_id.replace(greeting.run_id.clone());
        // Of whatever age, it may lack what the one before it knew: a replica that was promoted. A server that does not
        // say which run it is may be another one.
        if known.is_some_and(|known| known.is_none() || known != greeting.run_id) {
            self.not_before = self.not_before.max(Some(self.clock.now() + guard_time(guard)));
        }
        match greeting.votes_in {
            // No guard: its age does not matter, read or not.
            _ if guard.is_zero() => VotesFrom::Now,
            Some(wait) => self.votes_in(wait),
            // Unknown is not old: it may have restarted a moment ago.
            None => VotesFrom::Never,
        }
    }

    /// From when on a server takes first votes that is old enough after `wait`.
    pub(super) fn votes_in(&self, wait: Duration) -> VotesFrom {
        let from = self.clock.now() + wait;
        VotesFrom::At(self.not_before.map_or(from, |at| at.max(from)))
    }

    /// Says that the connection goes on with a login that will end.
    pub(super) fn warn_of_login(&self, fault: Fault) {
        let fault = self.target.route.redact_fault(fault);
        let text = format!("it cannot be logged in anew, which is tried until it ends: {fault}");
        self.warn(&Fault::new(text));
    }

    /// Logs what is wrong with the node.
    pub(super) fn warn(&self, fault: &Fault) {
        log::event!(Warn, Node, { node: &*self.target.url }, "{fault}", fault = fault);
    }
}
