//! The data of a server as an observer of all servers sees it.

use super::clock::Time;
use super::server::{EPOCH_US, Server};

impl Server {
    /// Until when, in true time, all keys of this owner exist here.
    pub(super) fn has_until(&self, token: &str) -> Option<Time> {
        let ends = self.keys.values().filter(|(owner, _)| owner == token).map(|(_, end)| *end);
        let run =
            (ends.min()? * 1000).saturating_sub(EPOCH_US.saturating_add_signed(self.offset_us));
        let time = u128::from(run) * 1_000_000_000 / u128::try_from(1_000_000 + self.ppm).unwrap();
        u64::try_from(time).ok()
    }

    /// The owner of a key and its remaining TTL in ms.
    pub(super) fn owner_at(&self, key: &str, now: Time) -> Option<(&str, u64)> {
        let left = |end: &u64| end.saturating_sub(self.clock_us(now) / 1000);
        let (owner, end) = self.keys.get(key)?;
        Some((owner.as_str(), left(end))).filter(|(_, left)| *left > 0)
    }

    /// Every owner of a key.
    pub(super) fn owners(&self, now: Time) -> impl Iterator<Item = &str> {
        let ms = self.clock_us(now) / 1000;
        self.keys.values().filter(move |(_, end)| *end > ms).map(|(owner, _)| owner.as_str())
    }
}
