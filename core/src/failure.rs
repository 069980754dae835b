//! What an acquire that got nothing says: why, since when, and who has it.

use std::mem::take;

use crate::acquire::Attempt;
use crate::error::{Error, seconds};
use crate::round::Refusal;
use crate::state::Owner;

/// What whoever waits for a lock of its own is told.
pub const NOT_REENTRANT: &str = "a lock is not reentrant";

impl Attempt<'_> {
    pub(crate) fn failure(&mut self) -> Error {
        let waited = self.waited();
        let now = self.live.quorum.clock.now();
        let lasted = self.unavailable_since.map(|since| now.since(since));
        let (why, remaining) = match &mut self.last {
            Refusal::Unavailable(nodes) => {
                return self.lock.unavailable(take(nodes), lasted).with_waited(waited);
            }
            Refusal::Late(took, nodes) => {
                return self.lock.late(*took, take(nodes), lasted).with_waited(waited);
            }
            Refusal::Invalid(text) => return self.lock.invalid(take(text)),
            Refusal::Queued => ("others in this process were first".to_owned(), None),
            Refusal::Split(_) => ("the votes stayed split".to_owned(), None),
            Refusal::Held(None, _) | Refusal::Scouted(None, _) => {
                ("somebody else holds it, without a known end: its key has no ttl".to_owned(), None)
            }
            Refusal::Held(Some(left), _) | Refusal::Scouted(Some(left), _) => (
                format!("somebody else holds it, for {} unless renewed", seconds(*left)),
                Some(*left),
            ),
        };
        let text = format!("{why}{}", self.own_holder());
        Error::timeout(&self.lock.key(), waited, &text).with_remaining(remaining)
    }

    /// Where this client itself holds what it waits for.
    fn own_holder(&self) -> String {
        let keeper = &self.live.keeper;
        let held = |key: &String| keeper.holders(key).into_iter().find(|state| state.held());
        let own = self.lock.keys.iter().find_map(held);
        own.map_or_else(String::new, |state| {
            let place = state.acquired_at();
            match self.owner.filter(|owner| state.owner.get() == Some(owner)) {
                Some(Owner(who, _)) => format!("; {who} holds it itself{place}: {NOT_REENTRANT}"),
                None => format!("; this client holds it{place}"),
            }
        })
    }
}
