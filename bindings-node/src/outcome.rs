//! What a call came to, and its shape in JavaScript.

use napi::bindgen_prelude::{Null, ToNapiValue};
use napi::sys;

use crate::error::Failure;
use crate::lock::Inspection;

/// What a call came to.
pub enum Outcome {
    /// Kept under the call's own number from then on.
    Lease(redlock::Lease),
    /// As a lease, of another process perhaps: one that nobody picks up is left as it is.
    Attached(redlock::LeaseHandle),
    /// The lease of this number is over, as its owner wished.
    Released(u32),
    Yes(bool),
    Count(u32),
    Done,
    Inspection(Box<redlock::Inspection>),
    Failed(redlock::Error),
    /// The lease of this number, and why.
    Lost(u32, redlock::Error),
    Warning(String),
    /// The future panicked.
    Broken,
}

impl Outcome {
    pub(crate) fn lease(result: Result<redlock::Lease, redlock::Error>) -> Self {
        result.map_or_else(Self::Failed, Self::Lease)
    }

    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Broken)
    }
}

impl ToNapiValue for Outcome {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: the caller's promise, passed on.
        unsafe {
            match value {
                Self::Lease(_) | Self::Attached(_) | Self::Released(_) | Self::Done => {
                    Null::to_napi_value(env, Null)
                }
                Self::Yes(yes) => bool::to_napi_value(env, yes),
                Self::Count(count) => u32::to_napi_value(env, count),
                Self::Inspection(seen) => ToNapiValue::to_napi_value(env, Inspection::from(*seen)),
                Self::Failed(error) | Self::Lost(_, error) => {
                    ToNapiValue::to_napi_value(env, Failure::from(&error))
                }
                Self::Warning(text) => String::to_napi_value(env, text),
                Self::Broken => ToNapiValue::to_napi_value(env, Failure::internal()),
            }
        }
    }
}
