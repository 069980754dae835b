//! Tracks the primary of one node: the newest report of all sentinels, and the waiters for a newer one.

use tokio::sync::watch;

use super::word::Word;

/// The newest report so far, or `None` before the first one.
pub(super) struct Known(watch::Sender<Option<Word>>);

impl Known {
    /// Creates an empty tracker.
    pub(super) fn nothing() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Whether no newer report is known.
    pub(super) fn allows(&self, word: &Word) -> bool {
        self.0.borrow().as_ref().is_none_or(|known| word.is_at(known) || !known.is_after(word))
    }

    /// Accepts this report as the primary to connect to, and returns the newest report about it. It wakes no waiters,
    /// because the next connection goes there anyway.
    ///
    /// A sentinel that missed failovers away from the server and back reports too old an epoch for it.
    pub(super) fn settle(&self, word: &Word) -> Word {
        self.0.send_if_modified(|known| {
            let later =
                known.as_ref().is_some_and(|known| known.is_at(word) && known.is_after(word));
            if !later {
                *known = Some(word.clone());
            }
            false
        });
        self.0.borrow().as_ref().unwrap_or(word).clone()
    }

    /// Handles the report of a sentinel whose previous report was `before`. Wakes the waiters if it is news.
    pub(super) fn heard(&self, before: Option<&Word>, word: &Word) {
        self.0.send_if_modified(|known| {
            let news = known.as_ref().is_none_or(|known| word.is_news(before, known));
            if news || known.as_ref().is_some_and(|known| word.is_at(known) && word.is_after(known))
            {
                *known = Some(word.clone());
            }
            news
        });
    }

    /// Returns a receiver for all later news.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Word>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn outdated_sentinel_does_not_revive_an_old_primary() {
        let word = |epoch, seconds| Word {
            host: "h".into(),
            port: 1,
            epoch: Some(epoch),
            since: Duration::from_secs(seconds),
        };
        let known = Known::nothing();
        known.heard(None, &word(7, 1));
        // The server was also the primary in epoch 5, and this sentinel missed the later failovers.
        assert_eq!(known.settle(&word(5, 3600)), word(7, 1));
        assert_eq!(known.settle(&word(7, 30)), word(7, 30));
    }
}
