//! A tower layer that serves requests with the same key one at a time, across all hosts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use redlock::{Error, Redlock};
use tower::{Layer, Service};

/// Serves each request under the lock of its key. A request without a key needs no lock.
#[derive(Clone)]
pub struct OneAtATime<F> {
    redlock: Redlock,
    key_of: Arc<F>,
}

impl<F> OneAtATime<F> {
    /// `key_of` returns the lock name of a request, or `None` if the request needs no lock.
    pub fn new(redlock: Redlock, key_of: F) -> Self {
        Self { redlock, key_of: Arc::new(key_of) }
    }
}

impl<S, F> Layer<S> for OneAtATime<F> {
    type Service = Locked<S, F>;

    fn layer(&self, inner: S) -> Locked<S, F> {
        Locked { inner, redlock: self.redlock.clone(), key_of: Arc::clone(&self.key_of) }
    }
}

/// The inner service, which runs while the lock of its request is held.
pub struct Locked<S, F> {
    inner: S,
    redlock: Redlock,
    key_of: Arc<F>,
}

impl<S: Clone, F> Clone for Locked<S, F> {
    fn clone(&self) -> Self {
        let (inner, redlock) = (self.inner.clone(), self.redlock.clone());
        Self { inner, redlock, key_of: Arc::clone(&self.key_of) }
    }
}

/// The cause of a failure: the lock, or the inner service.
#[derive(Debug)]
pub enum Failed<E> {
    Lock(Error),
    Service(E),
}

impl<S, F, R> Service<R> for Locked<S, F>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    F: Fn(&R) -> Option<String>,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = Failed<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Failed::Service)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // `poll_ready` made `self.inner` ready, so that one serves this request. The next request gets a clone.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        let lock = (self.key_of)(&request).map(|key| self.redlock.lock(key));
        Box::pin(async move {
            let Some(lock) = lock else {
                return inner.call(request).await.map_err(Failed::Service);
            };
            let lease = lock.acquire().await.map_err(Failed::Lock)?;
            // If the lock is lost, dropping the future of the inner service stops the request.
            let served = tokio::select! {
                served = inner.call(request) => served.map_err(Failed::Service),
                lost = lease.lost() => return Err(Failed::Lock(lost)),
            };
            lease.release().await.map_err(Failed::Lock)?;
            served
        })
    }
}
