//! What a call came to, and its shape in JavaScript.

use napi::bindgen_prelude::{Array, Env, Null, ToNapiValue, TypeName, ValueType};
use napi::sys;

use crate::error::Failure;
use crate::lock::Inspection;

/// What a call came to.
pub(crate) enum Outcome {
    /// Kept under the call's own number from then on.
    Lease(redlock::Lease),
    /// The lease of this number is over, as its owner wished.
    Released(u32),
    Yes(bool),
    Count(u32),
    Done,
    Inspection(Box<redlock::Inspection>),
    Failed(redlock::Error),
    Lost(redlock::Error),
    Warning(String),
    /// The future panicked.
    Broken,
}

impl Outcome {
    pub(crate) fn lease(result: Result<redlock::Lease, redlock::Error>) -> Self {
        result.map_or_else(Self::Failed, Self::Lease)
    }

    /// Not the answer to a call that somebody waits for.
    pub(crate) fn is_unasked(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Warning(_))
    }

    fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Broken)
    }
}

impl ToNapiValue for Outcome {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: the caller's promise, passed on.
        unsafe {
            match value {
                Self::Lease(_) | Self::Released(_) | Self::Done => Null::to_napi_value(env, Null),
                Self::Yes(yes) => bool::to_napi_value(env, yes),
                Self::Count(count) => u32::to_napi_value(env, count),
                Self::Inspection(seen) => ToNapiValue::to_napi_value(env, Inspection::from(*seen)),
                Self::Failed(error) | Self::Lost(error) => {
                    ToNapiValue::to_napi_value(env, Failure::from(&error))
                }
                Self::Warning(text) => String::to_napi_value(env, text),
                Self::Broken => ToNapiValue::to_napi_value(env, Failure::internal()),
            }
        }
    }
}

/// The outcomes of one wake-up, as `settle` gets them.
#[derive(Default)]
pub struct Batch(pub(crate) Vec<(u32, Outcome)>);

impl ToNapiValue for Batch {
    unsafe fn to_napi_value(env: sys::napi_env, batch: Self) -> napi::Result<sys::napi_value> {
        let length = u32::try_from(batch.0.len() * 2).unwrap_or(u32::MAX);
        let env = Env::from_raw(env);
        let mut array = env.create_array(length)?;
        for (at, (id, outcome)) in (0..).step_by(2).zip(batch.0) {
            let id = i64::from(id);
            array.set(at, if outcome.is_failure() { -id } else { id })?;
            array.set(at + 1, outcome)?;
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { Array::to_napi_value(env.raw(), array) }
    }
}

impl TypeName for Batch {
    fn type_name() -> &'static str {
        "Array"
    }

    fn value_type() -> ValueType {
        ValueType::Object
    }
}
