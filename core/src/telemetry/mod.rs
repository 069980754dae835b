//! Log records, tracing spans, metrics and statistics for the program.
//!
//! A subscriber and a recorder are code of the program, which may block or panic. They are called on separate threads.

#[cfg(not(all(feature = "metrics", feature = "tracing")))]
mod disabled;
#[cfg(feature = "tracing")]
pub(crate) mod log;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod record;
mod stats;
mod throttle;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::log;
#[cfg(not(feature = "metrics"))]
pub(crate) use disabled::metrics;
pub(crate) use log::Spans;
pub use record::{Level, Record, Topic, Value, listen, tell, want};
pub(crate) use stats::Counts;
pub use stats::Stats;
pub(crate) use throttle::{Logged, Notice, Omitted, Throttle};
