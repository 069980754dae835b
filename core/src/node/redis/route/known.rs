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

    /// The primary is taken to be there. Nobody is woken: it is where the next connection goes.
    pub(super) fn settle(&self, word: &Word) {
        self.0.send_if_modified(|known| {
            let later =
                known.as_ref().is_some_and(|known| known.is_at(word) && known.is_after(word));
            if !later {
                *known = Some(word.clone());
            }
            false
        });
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
