//! One request whose result several callers share: a name lookup, or a call of the program's `credentials`.
//!
//! Its work cannot be cancelled, and may take longer than any caller waits. A caller that arrives meanwhile joins it,
//! so that work that hangs is never started twice. A result that came too late for every caller is kept briefly for the
//! next one.

use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Instant;

/// How long a result is kept that no caller waited for. By then the next attempt to connect has begun.
const KEEP_TIME: Duration = Duration::from_secs(30);

/// A result, and when it arrived.
type Arrived<T> = Option<(T, Instant)>;

/// A request under way, or one whose result was kept.
#[derive(Clone)]
pub(crate) struct SharedRequest<T>(watch::Receiver<Arrived<T>>);

/// Delivers the result of a request. Dropping it makes the callers get none.
pub(crate) struct Completion<T>(watch::Sender<Arrived<T>>);

impl<T: Clone> SharedRequest<T> {
    /// Creates a request without a result.
    pub(crate) fn pending() -> (Self, Completion<T>) {
        let (sender, receiver) = watch::channel(None);
        (Self(receiver), Completion(sender))
    }

    /// Returns the request in this place if it is under way, or if its result was kept and is `good`. A kept result is
    /// used once, because it would be too old for another attempt.
    pub(crate) fn join(
        place: &mut Option<Self>,
        now: Instant,
        good: impl Fn(&T) -> bool,
    ) -> Option<Self> {
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
    pub(crate) fn is_over(&self, now: Instant) -> bool {
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
    pub(crate) fn complete(self, result: T, now: Instant) -> bool {
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
