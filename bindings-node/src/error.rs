//! Core's error as a plain object; `errors.ts` makes the exception of it, so that its stack shows the caller's line.

use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::Env;
use napi_derive::napi;

/// What went wrong, in the words of core. Times are whole milliseconds.
#[napi(object, object_from_js = false)]
pub struct Failure {
    pub code: String,
    pub message: String,
    pub resource: Option<String>,
    pub waited: Option<f64>,
    pub remaining: Option<f64>,
    pub reason: Option<String>,
    pub nodes: Vec<NodeFailure>,
}

/// What one node had to say.
#[napi(object, object_from_js = false)]
pub struct NodeFailure {
    pub url: String,
    pub state: String,
    pub error: Option<String>,
}

impl From<&redlock::Error> for Failure {
    fn from(error: &redlock::Error) -> Self {
        Self {
            code: error.code().to_owned(),
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
            state: report.state.to_owned(),
            error: report.error.clone(),
        }
    }
}

/// Rounded down: a lease never looks longer than it is.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).floor()
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
            code: "internal".to_owned(),
            message: "redlock: an internal error ended this call; please report it".to_owned(),
            resource: None,
            waited: None,
            remaining: None,
            reason: None,
            nodes: Vec::new(),
        }
    }
}
