//! What one node knows of its primary, by all its sentinels' words: the newest one, and who waits for a newer.

use tokio::sync::watch;

use super::word::Word;

/// The newest word so far; `None` before the first.
pub(super) struct Known(watch::Sender<Option<Word>>);

impl Known {
    /// Nothing is known.
    pub(super) fn nothing() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Whether nothing newer than this is known.
    pub(super) fn allows(&self, word: &Word) -> bool {
        self.0.borrow().as_ref().is_none_or(|known| word.is_at(known) || !known.is_after(word))
    }

    /// The primary is taken to be there, and what is known of it then. No waiter is woken: it is where the next connection
    /// goes.
    ///
    /// A sentinel that has missed failovers away from the server and back again believes it to be older than it is.
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

    /// A sentinel that said `before` says this now: who waits is told if it is news.
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

    /// From now on every news is to be heard.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Word>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sentinel_that_missed_failovers_does_not_make_a_new_primary_an_old_one() {
        let word = |epoch, seconds| Word {
            host: "h".into(),
            port: 1,
            epoch: Some(epoch),
            since: Duration::from_secs(seconds),
        };
        let known = Known::nothing();
        known.heard(None, &word(7, 1));
        // It was the primary in epoch 5, too, and this sentinel heard of nothing since.
        assert_eq!(known.settle(&word(5, 3600)), word(7, 1));
        assert_eq!(known.settle(&word(7, 30)), word(7, 30));
    }
}
