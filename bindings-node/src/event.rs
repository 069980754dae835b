//! A background event of core, as a plain object.

use std::collections::HashMap;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use redlock::ffi::{Field, Record};

/// A background event of core.
#[napi(object, object_from_js = false)]
pub struct CoreEvent {
    /// `acquire`, `lease`, `node` or `client`.
    pub topic: &'static str,
    /// The message, with names in braces for the parts that differ between events of this kind.
    pub template: &'static str,
    /// The message and the fields, on one line.
    pub text: String,
    /// The data. Times are in ms.
    pub fields: HashMap<String, Either<String, f64>>,
    /// Number of events that were dropped before this one, because this thread was too slow.
    pub dropped: u32,
}

impl CoreEvent {
    /// Converts a record for JavaScript.
    pub(crate) fn from_record(record: &Record, dropped: usize) -> Self {
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
