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
    key: Arc<F>,
}

impl<F> OneAtATime<F> {
    /// `key` returns the lock name of a request.
    pub fn new(redlock: Redlock, key: F) -> Self {
        Self { redlock, key: Arc::new(key) }
    }
}

impl<S, F> Layer<S> for OneAtATime<F> {
    type Service = Locked<S, F>;

    fn layer(&self, inner: S) -> Locked<S, F> {
        Locked { inner, redlock: self.redlock.clone(), key: Arc::clone(&self.key) }
    }
}

/// A service under locks.
pub struct Locked<S, F> {
    inner: S,
    redlock: Redlock,
    key: Arc<F>,
}

impl<S: Clone, F> Clone for Locked<S, F> {
    fn clone(&self) -> Self {
        let (inner, redlock) = (self.inner.clone(), self.redlock.clone());
        Self { inner, redlock, key: Arc::clone(&self.key) }
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
        // The service that reported readiness serves this request, and its clone takes its place.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        let lock = (self.key)(&request).map(|key| self.redlock.lock(key));
        Box::pin(async move {
            let Some(lock) = lock else {
                return inner.call(request).await.map_err(Failed::Service);
            };
            let lease = lock.acquire().await.map_err(Failed::Lock)?;
            // A request that loses its lock is not served any further: the future of the service is dropped.
            let served = tokio::select! {
                served = inner.call(request) => served.map_err(Failed::Service),
                lost = lease.lost() => return Err(Failed::Lock(lost)),
            };
            lease.release().await.map_err(Failed::Lock)?;
            served
        })
    }
}
