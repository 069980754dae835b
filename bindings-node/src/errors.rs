//! Core's error as a plain object; `errors.ts` makes the exception of it, so that its stack shows the caller's line.

use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::Env;
use napi_derive::napi;

/// What went wrong, in the words of core. Times are whole milliseconds.
#[napi(object, object_from_js = false)]
pub struct Failure {
    /// Which class of exception it becomes.
    pub kind: String,
    /// What the exception says.
    pub message: String,
    /// The Redis key it is about.
    pub resource: Option<String>,
    /// How long the acquire had waited.
    pub waited: Option<f64>,
    /// What is left of the holder's lease, where a node told it.
    pub remaining: Option<f64>,
    /// Why the lease was lost.
    pub reason: Option<String>,
    /// What each node had to say.
    pub nodes: Vec<NodeFailure>,
}

/// What one node had to say.
#[napi(object, object_from_js = false)]
pub struct NodeFailure {
    /// The node's URL without its password.
    pub url: String,
    /// How it voted, or that it did not.
    pub state: String,
    /// The fault's own text.
    pub error: Option<String>,
}

impl From<&redlock::Error> for Failure {
    fn from(error: &redlock::Error) -> Self {
        Self {
            kind: error.code().to_owned(),
            message: error.to_string(),
            resource: error.resource().map(str::to_owned),
            waited: error.waited().map(millis),
            remaining: error.remaining().map(millis),
            reason: error.reason().map(str::to_owned),
            nodes: error.nodes().iter().map(NodeFailure::from).collect(),
        }
    }
}

impl From<&redlock::NodeReport> for NodeFailure {
    fn from(report: &redlock::NodeReport) -> Self {
        Self {
            url: report.url.clone(),
            state: report.state.to_string(),
            error: report.error.clone(),
        }
    }
}

/// Rounded down: a lease never looks longer than it is.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).floor()
}

/// For a time that was given in whole milliseconds.
pub(crate) fn exact_millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round()
}

/// On one line, without what a terminal would obey, and cut.
#[napi(catch_unwind)]
pub fn shown(text: String) -> String {
    redlock::ffi::shown(&text)
}

/// Makes the running export throw the error's plain object.
pub(crate) fn throw(env: Env, error: &redlock::Error) -> napi::Error {
    match env.throw(Failure::from(error)) {
        Ok(()) => napi::Error::new(Status::PendingException, error.to_string()),
        Err(broken) => broken,
    }
}

impl Failure {
    /// A bug of ours, told as an error rather than as a promise that never settles.
    pub(crate) fn internal() -> Self {
        Self {
            kind: "internal".to_owned(),
            message: "redlock: an internal error ended this call; please report it".to_owned(),
            resource: None,
            waited: None,
            remaining: None,
            reason: None,
            nodes: Vec::new(),
        }
    }
}
