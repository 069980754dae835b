//! Logs problems of a server that can be connected, and permanent errors of connection attempts.
//!
//! Each problem is logged once until it changes, because every new connection detects it again.

use std::sync::Arc;

use super::context::Context;
use crate::node::Fault;
use crate::node::redis::connect::handshake::Greeting;
use crate::telemetry::{Notice, log};

/// What was logged about one server.
#[derive(Default)]
pub(crate) struct Notices {
    /// The missing commands.
    features: Notice<String>,
    /// The eviction policy.
    eviction: Notice<String>,
    /// The server that takes no first vote, and whether it ever will.
    guard: Notice<(Option<String>, bool)>,
    /// Why no attempt to connect can succeed.
    refusal: Notice<(Arc<str>, Option<String>)>,
}

impl Notices {
    /// Logs what is wrong with the server of a new connection.
    pub(crate) fn connected(&mut self, context: &Context, greeting: &Greeting) {
        self.refusal.ends();
        self.note_guard(context, greeting);
        self.note_features(context, greeting);
        self.note_eviction(context, greeting);
    }

    /// Logs why no attempt to connect can succeed, before the user changes something.
    pub(crate) fn refused(&mut self, context: &Context, fault: &Fault) {
        if let Some(omitted) = self.refusal.begins(fault.kind(), context.clock.now()) {
            context.target.warn(&format_args!("{fault}{omitted}"));
        }
    }

    fn note_guard(&mut self, context: &Context, greeting: &Greeting) {
        let now = context.clock.now();
        let Some(fault) = context.link.guard_fault(|| None, || now) else {
            self.guard.ends();
            return;
        };
        let state = (greeting.run_id.clone(), greeting.votes_in.is_some());
        if let Some(omitted) = self.guard.begins(state, now) {
            context.target.warn(&format_args!("{fault}{omitted}"));
        }
    }

    fn note_features(&mut self, context: &Context, greeting: &Greeting) {
        let node = &*context.target.url;
        let Some((commands, effects)) = greeting.without.described() else {
            if self.features.ends() {
                log::event!(Info, Node, { node: node }, "the server supports all commands now");
            }
            return;
        };
        if let Some(omitted) = self.features.begins(commands.clone(), context.clock.now()) {
            log::event!(
                Warn, Node, { node: node },
                "the server, or a proxy in front of it, does not support {commands}: {effects}",
                commands = commands, effects = format_args!("{effects}{omitted}"),
            );
        }
    }

    fn note_eviction(&mut self, context: &Context, greeting: &Greeting) {
        // A server without this field is accepted. Its user may lack the right to read it.
        let policy = greeting.eviction.as_deref().unwrap_or("noeviction");
        if policy == "noeviction" {
            self.eviction.ends();
            return;
        }
        if let Some(omitted) = self.eviction.begins(policy.to_owned(), context.clock.now()) {
            let policy = context.target.route.redact(policy);
            log::event!(
                Warn, Node, { node: &*context.target.url, maxmemory_policy: policy },
                "the server may evict lock keys when its memory is full. Set maxmemory-policy to noeviction{omitted}",
                omitted = omitted
            );
        }
    }
}
