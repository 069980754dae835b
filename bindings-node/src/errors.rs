//! Converts core's errors to plain objects. `errors.ts` creates the exception, so that its stack shows the caller's
//! line.

use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::Env;
use napi_derive::napi;

/// An error of core. Times are whole milliseconds.
#[napi(object, object_from_js = false)]
pub struct Failure {
    /// The kind, which determines the class of the exception.
    pub kind: String,
    /// The message of the exception.
    pub message: String,
    /// The Redis key.
    pub resource: Option<String>,
    /// How long the acquire had waited.
    pub waited: Option<f64>,
    /// The remaining time of the holder's lease, if a node reported it.
    pub remaining: Option<f64>,
    /// The label of the holder, if it has one.
    pub holder: Option<String>,
    /// Why the lease was lost.
    pub reason: Option<String>,
    /// The report of each node.
    pub nodes: Vec<NodeFailure>,
    /// What to do, which ends the message.
    pub advice: Option<String>,
}

/// The report of one node.
#[napi(object, object_from_js = false)]
pub struct NodeFailure {
    /// The node's URL, without its password.
    pub url: String,
    /// `granted`, `held`, `missing` (no key to extend or release), `fault`, or `pending` (no reply before the other
    /// nodes had decided).
    pub state: String,
    /// The text of the node's error.
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
            holder: error.holder().map(str::to_owned),
            reason: error.reason().map(str::to_owned),
            nodes: error.nodes().iter().map(NodeFailure::from).collect(),
            advice: redlock::ffi::advice(error).map(str::to_owned),
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

/// Rounds down, so that a lease never appears longer than it is.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).floor()
}

/// Converts a time that was specified in whole milliseconds.
pub(crate) fn exact_millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round()
}

/// Returns the text on one line, without control characters for a terminal, and shortened.
#[napi(catch_unwind)]
pub fn shown(text: String) -> String {
    redlock::ffi::shown(&text)
}

/// Makes the running export throw the error as a plain object.
pub(crate) fn throw(env: Env, error: &redlock::Error) -> napi::Error {
    match env.throw(Failure::from(error)) {
        Ok(()) => napi::Error::new(Status::PendingException, error.to_string()),
        Err(broken) => broken,
    }
}

impl Failure {
    /// A bug in redlock, reported as an error so that the promise does not stay pending.
    pub(crate) fn internal() -> Self {
        Self {
            kind: "internal".to_owned(),
            message: "an internal error in redlock ended this call. Please report this bug"
                .to_owned(),
            resource: None,
            waited: None,
            remaining: None,
            holder: None,
            reason: None,
            nodes: Vec::new(),
            advice: None,
        }
    }
}
