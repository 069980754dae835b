//! What core did by itself, as a plain object.

use std::collections::HashMap;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use redlock::ffi::{Field, Record};

/// One step.
#[napi(object, object_from_js = false)]
pub struct Step {
    /// `acquire`, `lease`, `node` or `client`.
    pub topic: &'static str,
    /// What it says, the same for all of its kind but for what stands in its braces.
    pub template: &'static str,
    /// As one line, with its fields.
    pub text: String,
    /// Its data; times are in ms.
    pub fields: HashMap<String, Either<String, f64>>,
    /// How many were dropped before it, as this thread was too slow for them.
    pub dropped: u32,
}

impl Step {
    /// As JavaScript sees it.
    pub(crate) fn of(record: &Record, dropped: usize) -> Self {
        let value = |field: &Field| match field {
            Field::Number(number) => Either::B(*number),
            #[allow(clippy::cast_precision_loss, reason = "no count comes near to 2^53")]
            Field::Count(count) => Either::B(*count as f64),
            text => Either::A(text.to_string()),
        };
        Self {
            topic: record.topic.as_str(),
            template: record.template,
            text: record.text(),
            fields: record
                .known()
                .map(|(name, field)| ((*name).to_owned(), value(field)))
                .collect(),
            dropped: u32::try_from(dropped).unwrap_or(u32::MAX),
        }
    }
}
