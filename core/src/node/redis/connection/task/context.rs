//! Keeps the state of a node across its connections: its target, its commands, its pending deletes, and what was
//! logged.
//!
//! The node's task owns it, except for the [`Backlog`], which an open connection borrows. The node reads the state in
//! [`crate::node::redis::link`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::Clock;
use crate::node::redis::commands::capabilities::Feature;
use crate::node::redis::connect::handshake::Greeting;
use crate::node::redis::protocol::Target;
use crate::node::redis::protocol::{Backlog, InFlight, PendingDeletes};
use crate::node::redis::sentinel::{FoundPrimary, News, Resolver};
use crate::node::redis::state::link::Link;
use crate::node::redis::state::restart_guard::{FAILOVER_NOTICE_TIME, Greeted, guard_time};
use crate::node::{Change, Fault, Watch};
use crate::telemetry::{Notice, log};

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
}

/// What was logged about one server. Each problem is logged once until it changes, because every new connection detects
/// it again.
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
        let backlog = Some(Backlog { commands, pending });
        let guard = Some(target.guard).filter(|guard| !guard.is_zero());
        let old = guard.map_or(Duration::ZERO, |guard| guard_time(guard) + FAILOVER_NOTICE_TIME);
        let resolver = Arc::new(Resolver::new(&target.route, old));
        let news = resolver.news();
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
        }
    }

    /// Refuses a command that cannot be sent. Commands are never queued across a reconnect, except as pending deletes.
    pub(crate) fn fail(&mut self, in_flight: InFlight, fault: &Fault) {
        let now = self.clock.now();
        Backlog::available(&mut self.backlog).pending.fail_unsent(in_flight, fault, now);
    }

    /// Records a new connection, before it gets any command.
    pub(crate) fn opened(&self, greeting: &Greeting, found: &FoundPrimary) {
        let server = Greeted {
            run_id: greeting.run_id.as_ref(),
            votes_in: greeting.votes_in,
            primary_for: found.primary_for(),
        };
        let now = self.clock.now();
        self.link.guard.opened(&server, self.target.guard, now);
        self.link.set_used(now);
        if self.link.was_open() {
            self.target.counts.reconnected();
        }
        self.link.opened(greeting.supported.has(Feature::Tracking));
        self.link.outage.connected(now);
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
        self.link.set_push_checked(true);
        if self.notices.unredirected.ends() {
            let node = &*self.target.url;
            log::event!(Info, Node, { node: node }, "the connection for notifications is open now");
        }
    }

    /// Records, and logs once, that notifications arrive on the same connection as replies.
    pub(crate) fn not_redirected(&mut self, fault: &Fault) {
        self.redirects = 0;
        self.link.set_push_checked(false);
        if let Some(omitted) = self.notices.unredirected.begins((), self.clock.now()) {
            let fault = self.target.route.redact_fault(fault.clone());
            self.target.warn(&format_args!(
                "cannot open a second connection for notifications, retrying every 30 s. Until then, \
                each reply takes longer: {fault}{omitted}"
            ));
        }
    }

    /// Records whether the connection for notifications has been silent for long. Callers that rely on it ask then, and
    /// more often from then on.
    pub(crate) fn set_silent(&self, is_silent: bool) {
        self.link.set_push_checked(!is_silent);
        if is_silent {
            self.watch.changed(Change::All);
        }
    }

    /// Whether connections end instead of redirecting their notifications, as behind a proxy that closes them at an
    /// unknown command. One of them may have ended for another reason.
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
        let Some(fault) = self.link.guard.vote_fault(|| None, || now) else {
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
        let Some((commands, effects)) = greeting.supported.described() else {
            if self.notices.features.ends() {
                log::event!(Info, Node, { node: node }, "the server supports all commands now");
            }
            return;
        };
        if let Some(omitted) = self.notices.features.begins(commands.clone(), self.clock.now()) {
            let asks = self.target.route.server.parameters.protocol == Some(2);
            if asks && commands == Feature::Tracking.command() {
                log::event!(
                    Warn, Node, { node: node },
                    "the URL has protocol=2, without notifications: {effects}",
                    effects = format_args!("{effects}{omitted}"),
                );
                return;
            }
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
