//! Remembers the votes that were never sent. They created no key, so their deletes are not needed.

use std::collections::HashSet;
use std::sync::Arc;

use crate::node::redis::commands::command::{Command, Purpose};
use crate::node::redis::protocol::in_flight::InFlight;
use crate::runtime::environment;

/// The maximum number of unsent votes to remember. At this number the older half is forgotten. The delete of a
/// forgotten one is kept needlessly.
const MAX_UNSENT_VOTES: usize = 32_768;

/// The tokens of votes that were never sent, which have nothing to delete.
#[derive(Default)]
pub(crate) struct UnsentVotes {
    newer: HashSet<Arc<str>>,
    older: HashSet<Arc<str>>,
}

impl UnsentVotes {
    /// Records that a vote is not sent. This does not apply to the second command of a vote, because the first one was
    /// sent.
    pub(crate) fn add(&mut self, command: &Command) {
        if let Purpose::FirstVote { token, sent: false } = &command.purpose {
            if self.newer.len() >= environment::limit(MAX_UNSENT_VOTES / 2) {
                self.older = std::mem::take(&mut self.newer);
            }
            self.newer.insert(Arc::clone(token));
        }
    }

    /// Called before a command is written. From then on, a vote may set its token on a key.
    pub(super) fn sending(&mut self, in_flight: &mut InFlight) {
        // Checked first, because this runs for each command and is almost always empty.
        if self.newer.is_empty() && self.older.is_empty() {
            return;
        }
        if let Purpose::FirstVote { token, .. } | Purpose::Heal(token) = &in_flight.command.purpose
        {
            self.remove(token);
        }
        in_flight.unneeded |= self.has_vote_of(&in_flight.command);
    }

    /// Called when a command fails without being written.
    pub(crate) fn not_sent(&mut self, in_flight: &mut InFlight) {
        self.add(&in_flight.command);
        in_flight.unneeded |= self.has_vote_of(&in_flight.command);
    }

    /// Whether this is the delete of such a vote, so that it created no key. The delete follows the vote, which is not
    /// remembered any more.
    pub(crate) fn has_vote_of(&mut self, command: &Command) -> bool {
        let Purpose::Delete { token, earlier, .. } = &command.purpose else { return false };
        // A merged delete was pending, so its votes were sent.
        earlier.is_empty() && self.remove(token)
    }

    /// Called for a command that waits for a connection.
    ///
    /// Without its caller, a vote is never sent. If its delete is refused meanwhile, it must not become pending,
    /// because it could displace one that is needed. If its delete also waits, a shutdown need not wait for it.
    pub(crate) fn waiting(&mut self, in_flight: &mut InFlight) {
        self.add(&in_flight.command);
        if let Purpose::Delete { token, earlier, .. } = &in_flight.command.purpose
            && earlier.is_empty()
            && (self.newer.contains(token) || self.older.contains(token))
        {
            in_flight.stop_counting();
        }
    }

    /// Forgets a vote. Returns whether it was remembered.
    fn remove(&mut self, token: &str) -> bool {
        // From both.
        self.newer.remove(token) | self.older.remove(token)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pending_deletes::tests::{command, delete};
    use super::*;

    fn vote(token: &str, sent: bool) -> Command {
        command("vote", Purpose::FirstVote { token: token.into(), sent })
    }

    #[test]
    fn delete_is_unneeded_only_if_its_vote_was_never_sent() {
        let mut unsent = UnsentVotes::default();
        unsent.add(&vote("unsent", false));
        unsent.add(&vote("second command", true));
        unsent.add(&vote("sent later", false));
        unsent.sending(&mut InFlight::without_caller(command(
            "heal",
            Purpose::Heal("sent later".into()),
        )));
        let mut unneeded = |token| {
            let mut delete = InFlight::without_caller(delete(token));
            unsent.sending(&mut delete);
            delete.unneeded
        };
        assert_eq!(
            ["unsent", "second command", "sent later"].map(&mut unneeded),
            [true, false, false]
        );
        assert!(!unneeded("unsent"), "the delete of its next vote is needed");
    }
}
