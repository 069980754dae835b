//! Credentials from a JavaScript function, which runs on the JavaScript thread that made the client.
//!
//! Rust does not hold the function. JavaScript identifies it by a number, for as long as an object there needs it. Each
//! request has a number too. Its `Answer` is stored under that number until the function, or its promise, returns.

use std::sync::Arc;

use napi_derive::napi;
use redlock::ffi::{Ask, Credentials, Unit};

use crate::number::Number;
use crate::outcome::{Ended, Outcome};
use crate::runtime::{Runtime, ThreadState};

/// Returns the source of credentials for the function that JavaScript identifies by this number. A request reaches the
/// function through its event loop.
pub(crate) fn callback_source(thread: &ThreadState, source: Number) -> Arc<Ask> {
    let push = thread.pusher();
    Arc::new(move |answer| {
        // If the event loop has ended, the answer is dropped, which reports an error.
        push(Ended { slot: 0, number: source, outcome: Outcome::CredentialsRequest(answer) });
    })
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
        let Some(answer) = self.thread.take_credentials_request(request) else { return };
        answer.give(given(failure, username, password, lifetime));
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
