//! The outcome of a call, and its conversion to JavaScript.

use napi::bindgen_prelude::{Null, ToNapiValue};
use napi::sys;
use redlock::ffi::Record;

use crate::callback_requests::CallbackRequest;
use crate::errors::Failure;
use crate::event::CoreEvent;
use crate::inspection::Inspection;
use crate::number::Number;
use crate::ping::Ping;

/// A call that has ended.
pub(crate) struct Ended {
    /// The slot in which JavaScript waits for it.
    pub(crate) slot: u32,
    /// The number of the call, because slots are reused.
    pub(crate) number: Number,
    /// The outcome.
    pub(crate) outcome: Outcome,
}

/// The outcome of a call.
pub enum Outcome {
    /// A lease, which is stored under the number of the call. None if a single round was not enough, or if a
    /// run is remembered.
    Acquired(redlock::Result<Option<redlock::Lease>>),
    /// An attached lease, which another process may hold too. It is not released if JavaScript no longer waits for it.
    Attached(redlock::LeaseHandle),
    /// The owner released the lease with this number.
    Released(Number),
    /// A boolean result.
    Yes(bool),
    /// A number as result.
    Count(u32),
    /// No result.
    Done,
    /// The result of `inspect`.
    Inspection(Box<redlock::Inspection>),
    /// The result of `ping`.
    Ping(Box<redlock::Ping>),
    /// The call failed.
    Failed(redlock::Error),
    /// The lease with this number was lost, for this reason. Not the outcome of a call.
    Lost(Number, redlock::Error),
    /// A warning for the program. Not the outcome of a call.
    Warning(String),
    /// A background event, and how many were dropped before it. Not the outcome of a call.
    Event(Box<Record>, usize),
    /// A call of a function of the program. Not the outcome of a call.
    Callback(CallbackRequest),
    /// The number of a callback request, and its arguments.
    Arguments(u32, String, u16),
    /// The future panicked.
    Broken,
}

impl Outcome {
    /// Whether JavaScript throws it.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Broken)
    }
}

impl ToNapiValue for Outcome {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: the caller fulfils the contract of `to_napi_value`.
        unsafe {
            match value {
                Self::Acquired(_)
                | Self::Attached(_)
                | Self::Released(_)
                | Self::Callback(_)
                | Self::Done => Null::to_napi_value(env, Null),
                Self::Yes(yes) => bool::to_napi_value(env, yes),
                Self::Count(count) => u32::to_napi_value(env, count),
                Self::Arguments(request, host, port) => {
                    <(u32, String, u16)>::to_napi_value(env, (request, host, port))
                }
                Self::Inspection(seen) => ToNapiValue::to_napi_value(env, Inspection::from(*seen)),
                Self::Ping(found) => ToNapiValue::to_napi_value(env, Ping::from(*found)),
                Self::Failed(error) | Self::Lost(_, error) => {
                    ToNapiValue::to_napi_value(env, Failure::from(&error))
                }
                Self::Warning(text) => String::to_napi_value(env, text),
                Self::Event(record, dropped) => {
                    ToNapiValue::to_napi_value(env, CoreEvent::from_record(&record, dropped))
                }
                Self::Broken => ToNapiValue::to_napi_value(env, Failure::internal()),
            }
        }
    }
}
