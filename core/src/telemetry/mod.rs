//! Log records, tracing spans, metrics and statistics for the program.
//!
//! A subscriber and a recorder are code of the program, which may block or panic. They are called on separate threads.

#[cfg(not(all(feature = "metrics", feature = "tracing")))]
mod disabled;
mod listener;
#[cfg(feature = "tracing")]
pub(crate) mod log;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod record;
#[cfg(feature = "tracing")]
mod spans;
mod stats;
mod throttle;

#[cfg(not(feature = "metrics"))]
pub(crate) use disabled::metrics;
#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::{log, spans};
pub use listener::{listen, tell, want};
pub use record::{Level, Record, Topic, Value};
pub(crate) use spans::Spans;
pub(crate) use stats::Counts;
pub use stats::Stats;
pub(crate) use throttle::{Notice, Omitted, Throttle};
