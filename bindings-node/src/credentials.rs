//! Who says as whom to log in: a function of JavaScript's, asked on its own thread.
//!
//! It is not held here: JavaScript knows it by a number, for as long as something there needs it. A question has a number,
//! too, under which its answer waits for what the function, or its promise, says.

use std::sync::Arc;

use napi_derive::napi;
use redlock::ffi::{Answer, Ask, Credentials, Unit};

use crate::number::Number;
use crate::outcome::{Ended, Outcome};
use crate::runtime::{Local, Runtime};

/// The function of this number, asked by way of its event loop.
struct Asker {
    source: Number,
    push: Box<dyn Fn(Ended) + Send + Sync>,
}

impl Ask for Asker {
    fn ask(&self, answer: Answer) {
        // Where nobody hears of it any more the answer is dropped, which says so.
        (self.push)(Ended { slot: 0, number: self.source, outcome: Outcome::Asked(answer) });
    }
}

/// Asks the function that JavaScript knows by this number.
pub(crate) fn asker(local: &Local, source: Number) -> Arc<dyn Ask> {
    Arc::new(Asker { source, push: Box::new(local.pusher()) })
}

#[napi]
impl Runtime {
    /// What the function says to a question, or why it says nothing.
    #[napi(catch_unwind)]
    pub fn give_credentials(
        &self,
        question: u32,
        failure: Option<String>,
        username: Option<String>,
        password: Option<String>,
        lifetime: Option<f64>,
    ) {
        let Some(answer) = self.local.take_question(question) else { return };
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
