//! Requests whose results several callers share: name lookups, or calls of the program's `credentials`.
//!
//! Its work cannot be cancelled, and may take longer than any caller waits. A caller that arrives meanwhile joins it,
//! so that work that hangs is never started twice. A result that came too late for every caller is kept briefly for the
//! next one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Instant;
use crate::runtime::{PerProcess, lock};

/// How long a result is kept that no caller waited for. By then the next attempt to connect has begun.
const KEEP_TIME: Duration = Duration::from_secs(30);

/// A result, and when it arrived.
type Arrived<T> = Option<(T, Instant)>;

/// A request under way, or one whose result was kept.
#[derive(Clone)]
pub(crate) struct SharedRequest<T>(watch::Receiver<Arrived<T>>);

/// Delivers the result of a request. Dropping it makes the callers get none.
pub(crate) struct Completion<T>(watch::Sender<Arrived<T>>);

/// Requests by key. A forked child has neither them nor the threads that work on them.
pub(crate) struct SharedRequests<K, T>(PerProcess<Mutex<ByKey<K, T>>>);

type ByKey<K, T> = HashMap<K, Option<SharedRequest<T>>>;

impl<K: Clone + Eq + Hash, T: Clone> SharedRequests<K, T> {
    pub(crate) const fn new() -> Self {
        Self(PerProcess::new())
    }

    /// Returns the request of this key that is under way, or whose result was kept and is `good`. Otherwise a new one,
    /// and with it what the caller must pass to [`Self::deliver_result`]. If it is dropped instead, later callers begin
    /// another one.
    pub(crate) fn join_or_begin(
        &self,
        key: &K,
        now: Instant,
        good: impl Fn(&T) -> bool,
    ) -> (SharedRequest<T>, Option<Completion<T>>) {
        let requests = self.0.get_or_make(Mutex::default);
        let mut by_key = lock(&requests);
        by_key.retain(|_, request| request.as_ref().is_some_and(|request| !request.is_over(now)));
        let known = by_key.get_mut(key).and_then(|place| SharedRequest::join(place, now, good));
        if let Some(request) = known {
            return (request, None);
        }
        let (request, completion) = SharedRequest::pending();
        by_key.insert(key.clone(), Some(request.clone()));
        (request, Some(completion))
    }

    /// Delivers the result. If no caller waits for it and it `may_be_kept`, the next one uses it.
    pub(crate) fn deliver_result(
        &self,
        key: &K,
        completion: Completion<T>,
        result: T,
        may_be_kept: bool,
        now: Instant,
    ) {
        let Some(requests) = self.0.get() else { return };
        let mut by_key = lock(&requests);
        if completion.complete(result, now) || !may_be_kept {
            by_key.remove(key);
        }
    }

    /// Whether the result of this key was kept, or `None` if it has no request.
    #[cfg(test)]
    pub(crate) fn is_kept(&self, key: &K) -> Option<bool> {
        let requests = self.0.get_or_make(Mutex::default);
        lock(&requests).get(key)?.as_ref().map(|request| request.0.borrow().is_some())
    }
}

impl<T: Clone> SharedRequest<T> {
    /// Creates a request without a result.
    fn pending() -> (Self, Completion<T>) {
        let (sender, receiver) = watch::channel(None);
        (Self(receiver), Completion(sender))
    }

    /// Returns the request in this place if it is under way, or if its result was kept and is `good`. A kept result is
    /// used once, because it would be too old for another attempt.
    fn join(place: &mut Option<Self>, now: Instant, good: impl Fn(&T) -> bool) -> Option<Self> {
        let request = place.take()?;
        let kept = request
            .0
            .borrow()
            .as_ref()
            .map(|(result, at)| now.since(*at) < KEEP_TIME && good(result));
        match kept {
            Some(usable) => usable.then_some(request),
            // Otherwise its work was dropped, for example because no thread could be started for it.
            None => request.0.has_changed().is_ok().then(|| {
                *place = Some(request.clone());
                request
            }),
        }
    }

    /// Whether a kept result is too old.
    fn is_over(&self, now: Instant) -> bool {
        self.0.borrow().as_ref().is_some_and(|(_, at)| now.since(*at) >= KEEP_TIME)
    }

    /// Waits for the result. Returns `None` if the work was dropped.
    pub(crate) async fn result(mut self) -> Option<T> {
        let arrived = self.0.wait_for(Option::is_some).await.ok()?;
        arrived.as_ref().map(|(result, _)| result.clone())
    }
}

impl<T> Completion<T> {
    /// Delivers the result. Returns whether a caller waits for it, besides the place that keeps the request.
    fn complete(self, result: T, now: Instant) -> bool {
        let awaited = self.0.receiver_count() > 1;
        self.0.send_replace(Some((result, now)));
        awaited
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    const START: Instant = Instant::from_start(Duration::ZERO);

    fn join(place: &mut Option<SharedRequest<u32>>, at: Duration) -> Option<SharedRequest<u32>> {
        SharedRequest::join(place, START + at, |number| *number > 0)
    }

    #[test]
    fn work_that_hangs_is_joined_however_long_it_takes() {
        let (request, completion) = SharedRequest::pending();
        let mut place = Some(request);
        for seconds in [0, 31, 3600] {
            let joined = join(&mut place, Duration::from_secs(seconds)).expect("it is under way");
            assert!(joined.result().now_or_never().is_none());
        }
        let waiting = join(&mut place, KEEP_TIME * 2).unwrap();
        assert!(completion.complete(7, START + KEEP_TIME * 3), "a caller waits");
        assert_eq!(waiting.result().now_or_never(), Some(Some(7)));
    }

    #[test]
    fn late_result_is_kept_briefly_and_used_once() {
        let kept = |number: u32| {
            let (request, completion) = SharedRequest::pending();
            assert!(!completion.complete(number, START), "no caller waits");
            Some(request)
        };
        let mut place = kept(7);
        let joined = join(&mut place, KEEP_TIME / 2).unwrap();
        assert_eq!(joined.result().now_or_never(), Some(Some(7)));
        assert!(join(&mut place, Duration::ZERO).is_none(), "it was used");
        assert!(join(&mut kept(7), KEEP_TIME).is_none(), "it is too old");
        assert!(join(&mut kept(0), Duration::ZERO).is_none(), "it is not good");
    }

    #[test]
    fn dropped_work_is_not_joined() {
        let (request, completion) = SharedRequest::pending();
        let mut place = Some(request);
        let waiting = join(&mut place, Duration::ZERO).unwrap();
        drop(completion);
        assert_eq!(waiting.result().now_or_never(), Some(None));
        assert!(join(&mut place, Duration::ZERO).is_none());
    }
}
