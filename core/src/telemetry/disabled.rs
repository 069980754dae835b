//! Replaces what belongs to a disabled feature. It reports nothing and reads no clock.

/// Replaces the log and the spans without the feature `tracing`.
#[cfg(not(feature = "tracing"))]
pub(crate) mod log {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::telemetry::{CallSite, Level, Topic};

    pub(crate) struct LogContext;

    impl LogContext {
        pub(crate) fn of_call(_: Arc<dyn CallSite>) -> Self {
            Self
        }
    }

    /// Accepts the same arguments as the macro of the log, so that callers need no condition.
    macro_rules! event {
        ($level:ident, $topic:ident, $(in $place:expr,)? {$($field:ident: $value:expr),* $(,)?},
         $text:literal $(, $name:ident = $part:expr)* $(,)?) => {
            if $crate::telemetry::log::wanted(
                $crate::telemetry::Level::$level,
                $crate::telemetry::Topic::$topic,
            ) {
                $(let _ = &$place;)?
                $(let _ = &$value;)*
                $(let _ = &$part;)*
            }
        };
    }
    pub(crate) use event;

    #[inline]
    pub(crate) fn wanted(_: Level, _: Topic) -> bool {
        false
    }

    pub(crate) struct Spans;

    #[allow(clippy::unused_self, reason = "as where there are some")]
    impl Spans {
        pub(crate) fn acquire(_: impl FnOnce() -> String) -> Self {
            Self
        }

        pub(crate) fn hold_span(&self, _: impl FnOnce() -> String, _: &str) -> Option<Self> {
            None
        }

        pub(crate) fn attached(_: impl FnOnce() -> String, _: &str) -> Option<Self> {
            None
        }

        pub(crate) fn log_context(&self) -> Option<Arc<LogContext>> {
            None
        }

        pub(crate) fn record_outcome(&self, _: &str, _: Duration, _: Option<&str>) {}

        pub(crate) fn end_span(&self) {}
    }
}

/// Replaces the metrics without the feature `metrics`.
#[cfg(not(feature = "metrics"))]
pub(crate) mod metrics {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::clock::{Clock, Instant};
    use crate::telemetry::{Counts, Stats};

    /// Not the time, because nothing needs it.
    pub(crate) fn started(_: &dyn Clock) -> Instant {
        Instant::default()
    }

    pub(crate) fn waited(_: &'static str, _: impl FnOnce() -> Duration) {}

    pub(crate) fn held(_: &'static str, _: impl FnOnce() -> Duration) {}

    pub(crate) fn watch(_: &Arc<Counts>, _: impl Fn(&mut Stats) + Send + Sync + 'static) {}
}
