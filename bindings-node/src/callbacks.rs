//! Calls JavaScript functions of the program, on the JavaScript thread that made the client: `credentials`,
//! `addressMap`.
//!
//! Rust does not hold the functions. JavaScript identifies those of a client by a number, for as long as an object
//! there needs them. Each request has a number too. It is stored under that number until the function, or its promise,
//! returns.

use std::sync::Arc;

use napi_derive::napi;
use redlock::ffi::{Ask, AskAddress, Credentials, Unit};

use crate::callback_requests::CallbackRequest;
use crate::number::Number;
use crate::outcome::{Ended, Outcome};
use crate::runtime::{Runtime, ThreadState};

/// Returns the source of credentials for the function that JavaScript identifies by this number. A request reaches the
/// function through its event loop.
pub(crate) fn credentials(thread: &ThreadState, number: Number) -> Arc<Ask> {
    let push = pusher(thread, number);
    Arc::new(move |(), answer| push(CallbackRequest::Credentials(answer)))
}

/// Returns the map of addresses for the function that JavaScript identifies by this number.
pub(crate) fn address_map(thread: &ThreadState, number: Number) -> Arc<AskAddress> {
    let push = pusher(thread, number);
    Arc::new(move |announced, answer| push(CallbackRequest::Address(announced, answer)))
}

fn pusher(
    thread: &ThreadState,
    number: Number,
) -> impl Fn(CallbackRequest) + Send + Sync + 'static {
    let push = thread.pusher();
    move |request| {
        // If the event loop has ended, the answer is dropped, which reports an error.
        push(Ended { slot: 0, number, outcome: Outcome::Callback(request) });
    }
}

#[napi]
impl Runtime {
    /// Passes on the credentials that the function returned for this request, or why it returned none.
    #[napi(catch_unwind)]
    pub fn return_credentials(
        &self,
        request: u32,
        failure: Option<String>,
        username: Option<String>,
        password: Option<String>,
        lifetime: Option<f64>,
    ) {
        if let Some(CallbackRequest::Credentials(answer)) =
            self.thread.callback_requests.take(request)
        {
            answer.send(given(failure, username, password, lifetime));
        }
    }

    /// Passes on the address that the function returned for this request, or why it returned none.
    #[napi(catch_unwind)]
    pub fn return_address(
        &self,
        request: u32,
        failure: Option<String>,
        host: Option<String>,
        port: Option<u16>,
    ) {
        if let Some(CallbackRequest::Address(_, answer)) =
            self.thread.callback_requests.take(request)
        {
            answer.send(
                failure
                    .map_or_else(|| Ok((host.unwrap_or_default(), port.unwrap_or_default())), Err),
            );
        }
    }
}

fn given(
    failure: Option<String>,
    username: Option<String>,
    password: Option<String>,
    lifetime: Option<f64>,
) -> Result<Credentials, String> {
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut credentials = Credentials::new(password.unwrap_or_default());
    if let Some(username) = username {
        credentials = credentials.user(username);
    }
    if let Some(lifetime) = lifetime {
        let lifetime = Unit::Milliseconds.duration("lifetime", lifetime);
        credentials = credentials.lifetime(lifetime.map_err(|error| error.to_string())?);
    }
    Ok(credentials)
}
