//! The data of a server as an observer of all servers sees it.

use super::clock::Time;
use super::scripts_sides::readers;
use super::server::{EPOCH_US, Server};

impl Server {
    /// Until when, in true time, all keys of this owner exist here.
    pub(super) fn has_until(&self, token: &str) -> Option<Time> {
        let of = |(owner, end): &(String, u64)| match readers(Some(owner)).get(token) {
            Some(last) => Some((*end).min(*last)),
            None => (owner == token).then_some(*end),
        };
        let ends = self.keys.values().filter_map(of);
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

    /// Every owner of a key, and every reader.
    pub(super) fn owners(&self, now: Time) -> impl Iterator<Item = String> {
        let ms = self.clock_us(now) / 1000;
        let values = self.keys.values().filter(move |(_, end)| *end > ms).map(|(value, _)| value);
        values.flat_map(move |value| {
            let readers = readers(Some(value)).into_iter().filter(|(_, end)| *end > ms);
            readers.map(|(token, _)| token).chain([value.clone()]).collect::<Vec<_>>()
        })
    }
}
