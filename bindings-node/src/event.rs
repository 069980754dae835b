//! A background event of core, as a plain object.

use std::collections::BTreeMap;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use redlock::ffi::{Field, Level, Record};

/// A background event of core.
#[napi(object, object_from_js = false)]
pub struct CoreEvent {
    /// `error`, `warn`, `info` or `debug`.
    pub level: &'static str,
    /// `acquire`, `lease`, `node` or `client`.
    pub topic: &'static str,
    /// The message, with names in braces for the parts that differ between events of this kind.
    pub template: &'static str,
    /// The message without the fields.
    pub message: String,
    /// The message and the fields, on one line.
    pub text: String,
    /// The fields, and the parts of the message that differ. Times are in ms.
    pub fields: BTreeMap<&'static str, Either<String, f64>>,
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
        let parts = record.parts.iter().map(|(name, part)| (*name, Either::A(part.clone())));
        Self {
            level: match record.level {
                Level::Error => "error",
                Level::Warn => "warn",
                Level::Info => "info",
                Level::Debug => "debug",
            },
            topic: record.topic.as_str(),
            template: record.template,
            message: record.message(),
            text: record.text(),
            fields: parts
                .chain(record.known().map(|(name, field)| (*name, value(field))))
                .collect(),
            dropped: u32::try_from(dropped).unwrap_or(u32::MAX),
        }
    }
}
