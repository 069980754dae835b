//! Keeps the state of a node across its connections: its target, its commands, its pending deletes, and what was logged.
//!
//! The connection task owns it, except for the [`Backlog`], which an open connection borrows. The node reads the state
//! in [`crate::node::redis::link`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::{Clock, Instant};
use crate::node::redis::connect::Target;
use crate::node::redis::connect::handshake::{Greeting, guard_time};
use crate::node::redis::link::{Link, VotesFrom};
use crate::node::redis::protocol::{InFlight, PendingDeletes, UnsentVotes};
use crate::node::redis::sentinel::{Found, News, Resolver};
use crate::node::{Fault, Watch};
use crate::telemetry::{Notice, log};

/// The time after which every client has noticed a failover and left the old primary, which may have granted locks
/// until then. Sentinels are polled every second and send an event earlier. In a cluster, a partitioned master stops
/// serving at about the time of the election.
pub(crate) const FAILOVER_NOTICE_TIME: Duration = Duration::from_secs(2);

/// The state that all connections of a node share.
pub(crate) struct Context {
    /// Where to connect.
    pub(crate) target: Target,
    /// Finds the server for each attempt.
    pub(crate) resolver: Arc<Resolver>,
    /// Reports changes of the server.
    pub(crate) news: News,
    /// The clock of the client. Leases, guards and pending deletes use it.
    pub(crate) clock: Arc<dyn Clock>,
    /// Receives changed keys.
    pub(crate) watch: Arc<Watch>,
    /// The state that the node reads.
    pub(crate) link: Arc<Link>,
    /// `None` while a connection uses it.
    pub(crate) backlog: Option<Backlog>,
    /// The number of commands to redirect notifications since the last reply to one.
    pub(crate) redirects: u32,
    notices: Notices,
    /// The run ID of the last server that may have taken first votes, if it reported one. `None` before the first one.
    run_id: Option<Option<String>>,
    /// The time before which a server that replaced another one takes no first vote.
    not_before: Option<Instant>,
    /// The time before which a server that replaced another one extends no lease.
    extends_from: Option<Instant>,
    /// When the last connection ended.
    pub(crate) lost_at: Option<Instant>,
}

/// What was logged about one server. Each problem is logged once until it changes, because every new connection detects it
/// again.
#[derive(Default)]
struct Notices {
    /// The missing commands.
    features: Notice<String>,
    /// The eviction policy.
    eviction: Notice<String>,
    /// The server that takes no first vote, and whether it ever will.
    guard: Notice<(Option<String>, bool)>,
    /// Why no attempt to connect can succeed.
    refusal: Notice<(Arc<str>, Option<String>)>,
    /// The lack of a connection for notifications.
    unredirected: Notice<()>,
}

/// The commands of a node without a connection, the votes that were never sent, and the pending deletes. An open
/// connection takes it and returns it at its end.
pub(crate) struct Backlog {
    /// The commands of the node. Closed once the client is gone.
    pub(crate) commands: UnboundedReceiver<InFlight>,
    /// Votes that were never sent.
    pub(crate) unsent_votes: UnsentVotes,
    /// Deletes without a confirmation.
    pub(crate) pending: PendingDeletes,
}

impl Backlog {
    /// Returns the backlog. Must not be called while a connection uses it.
    pub(crate) fn of(context: &mut Option<Self>) -> &mut Self {
        context.as_mut().expect("a connection has the backlog")
    }
}

impl Context {
    /// Creates the context of a node that has not connected yet.
    pub(crate) fn new(
        target: Target,
        clock: Arc<dyn Clock>,
        watch: Arc<Watch>,
        link: Arc<Link>,
        commands: UnboundedReceiver<InFlight>,
    ) -> Self {
        let pending = PendingDeletes::new(Arc::clone(&link), target.cluster.clone());
        let backlog = Some(Backlog { commands, unsent_votes: UnsentVotes::default(), pending });
        let guard = Some(target.guard).filter(|guard| !guard.is_zero());
        let old = guard.map_or(Duration::ZERO, |guard| guard_time(guard) + FAILOVER_NOTICE_TIME);
        let resolver = Arc::new(Resolver::new(&target.route, old));
        let (news, run_id, not_before) = (resolver.news(), None, None);
        Self {
            target,
            resolver,
            news,
            clock,
            watch,
            link,
            backlog,
            redirects: 0,
            notices: Notices::default(),
            run_id,
            not_before,
            extends_from: None,
            lost_at: None,
        }
    }

    /// Refuses a command that cannot be sent. Commands are never queued across a reconnect, except as pending deletes.
    pub(crate) fn fail(&mut self, mut in_flight: InFlight, fault: &Fault) {
        let (now, backlog) = (self.clock.now(), Backlog::of(&mut self.backlog));
        // A vote that was never sent created no key, so its delete is not needed.
        backlog.unsent_votes.not_sent(&mut in_flight);
        backlog.pending.fail(in_flight, fault, now);
    }

    /// Determines when the server takes first votes: when it is old enough by its own report and by ours.
    pub(crate) fn votes_from(&mut self, greeting: &Greeting, found: &Found) -> VotesFrom {
        let guard = self.target.guard;
        if let Some(age) = found.primary_for() {
            // Without a previous server, this client cannot detect a promoted replica. The sentinels can.
            let old =
                self.clock.now() + (guard_time(guard) + FAILOVER_NOTICE_TIME).saturating_sub(age);
            self.not_before = self.not_before.max(Some(old));
            let young = FAILOVER_NOTICE_TIME.saturating_sub(age);
            // The primary of a new connection is not a new primary.
            if !young.is_zero() {
                self.extends_from = self.extends_from.max(Some(self.clock.now() + young));
            }
        }
        // Without both, the server takes no first votes, so it does not matter which server it is.
        if greeting.run_id.is_some() || greeting.votes_in.is_some() {
            let restart = greeting.votes_in.is_some_and(|wait| self.restarted(wait));
            self.enter(greeting.run_id.clone(), restart);
        }
        self.guard_extends();
        match greeting.votes_in {
            // Without a guard, the age does not matter.
            _ if guard.is_zero() => VotesFrom::Now,
            Some(wait) => self.votes_in(wait),
            // An unknown age may be zero, after a restart.
            None => VotesFrom::Never,
        }
    }

    /// Records which server may take first votes from now on. If it may be another one than before, it takes none for
    /// the time of the guard.
    ///
    /// Unless it is a `restart`, the previous server may still run.
    fn enter(&mut self, run_id: Option<String>, restart: bool) {
        let known = self.run_id.replace(run_id);
        // A promoted replica may lack data of its predecessor, regardless of its age. Without a run ID, it may be
        // another server.
        if known.is_some_and(|known| known.is_none() || Some(known) != self.run_id) {
            let (guard, now) = (guard_time(self.target.guard), self.clock.now());
            self.not_before = self.not_before.max(Some(now + guard));
            if !restart {
                self.extends_from = self.extends_from.max(Some(now + FAILOVER_NOTICE_TIME));
                self.guard_extends();
            }
        }
    }

    /// Whether a server that is old enough for first votes in this time started after the last connection ended.
    fn restarted(&self, votes_in: Duration) -> bool {
        let gap = self.lost_at.map_or(Duration::ZERO, |at| self.clock.now().since(at));
        let enough = guard_time(self.target.guard) + Duration::from_secs(1);
        // Of an older server, the exact uptime is not known.
        !votes_in.is_zero() && enough.saturating_sub(votes_in) <= gap
    }

    fn guard_extends(&self) {
        if !self.target.guard.is_zero() {
            self.link.set_extends_from(self.extends_from);
        }
    }

    /// Returns when a server takes first votes that is old enough after `wait`.
    fn votes_in(&self, wait: Duration) -> VotesFrom {
        let from = self.clock.now() + wait;
        VotesFrom::At(self.not_before.map_or(from, |at| at.max(from)))
    }

    /// Logs that the login of the connection could not be renewed.
    pub(crate) fn warn_of_login(&self, fault: Fault) {
        let fault = self.target.route.redact_fault(fault);
        let text = format!("cannot log in again, retrying until the login expires: {fault}");
        self.target.warn(&text);
    }

    /// Records that notifications arrive on a separate connection.
    pub(crate) fn redirected(&mut self) {
        self.redirects = 0;
        if self.notices.unredirected.ends() {
            let node = &*self.target.url;
            log::event!(Info, Node, { node: node }, "the connection for notifications is open now");
        }
    }

    /// Records, and logs once, that notifications arrive on the same connection as replies.
    pub(crate) fn not_redirected(&mut self, fault: &Fault) {
        self.redirects = 0;
        if let Some(omitted) = self.notices.unredirected.begins((), self.clock.now()) {
            let fault = self.target.route.redact_fault(fault.clone());
            self.target.warn(&format_args!(
                "cannot open a second connection for notifications, retrying every 30 s. Until then, \
                each reply takes longer: {fault}{omitted}"
            ));
        }
    }

    /// Whether connections end instead of redirecting their notifications, as behind a proxy that closes them at an unknown
    /// command. One of them may have ended for another reason.
    pub(crate) fn ends_at_redirects(&mut self) -> bool {
        let ends = self.redirects > 1;
        if ends {
            self.not_redirected(&Fault::new("the first connection ended at two attempts"));
        }
        ends
    }

    /// Logs what is wrong with the server of a new connection.
    pub(crate) fn log_problems(&mut self, greeting: &Greeting) {
        self.notices.refusal.ends();
        self.note_guard(greeting);
        self.note_features(greeting);
        self.note_eviction(greeting);
    }

    /// Logs why no attempt to connect can succeed, before the user changes something.
    pub(crate) fn refused(&mut self, fault: &Fault) {
        if let Some(omitted) = self.notices.refusal.begins(fault.kind(), self.clock.now()) {
            self.target.warn(&format_args!("{fault}{omitted}"));
        }
    }

    fn note_guard(&mut self, greeting: &Greeting) {
        let now = self.clock.now();
        let Some(fault) = self.link.guard_fault(|| None, || now) else {
            self.notices.guard.ends();
            return;
        };
        let state = (greeting.run_id.clone(), greeting.votes_in.is_some());
        if let Some(omitted) = self.notices.guard.begins(state, now) {
            self.target.warn(&format_args!("{fault}{omitted}"));
        }
    }

    fn note_features(&mut self, greeting: &Greeting) {
        let node = &*self.target.url;
        let Some((commands, effects)) = greeting.without.described() else {
            if self.notices.features.ends() {
                log::event!(Info, Node, { node: node }, "the server supports all commands now");
            }
            return;
        };
        if let Some(omitted) = self.notices.features.begins(commands.clone(), self.clock.now()) {
            log::event!(
                Warn, Node, { node: node },
                "the server, or a proxy in front of it, does not support {commands}: {effects}",
                commands = commands, effects = format_args!("{effects}{omitted}"),
            );
        }
    }

    fn note_eviction(&mut self, greeting: &Greeting) {
        // A server without this field is accepted. Its user may lack the right to read it.
        let policy = greeting.eviction.as_deref().unwrap_or("noeviction");
        if policy == "noeviction" {
            self.notices.eviction.ends();
            return;
        }
        if let Some(omitted) = self.notices.eviction.begins(policy.to_owned(), self.clock.now()) {
            let policy = self.target.route.redact(policy);
            log::event!(
                Warn, Node, { node: &*self.target.url, maxmemory_policy: policy },
                "the server may evict lock keys when its memory is full. Set maxmemory-policy to noeviction{omitted}",
                omitted = omitted
            );
        }
    }
}
