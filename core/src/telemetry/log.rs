//! Passes log events and spans to the program's `tracing` subscriber.
//!
//! A subscriber is code of the program: it may block (a full pipe), panic, or call this library. Only the log's thread
//! calls it for events. They reach that thread through a bounded queue as owned data. If the queue is full, an event is
//! dropped and counted, and the count is logged as soon as there is room. DEBUG events may use only half of the queue,
//! so that they never displace a warning. The ends of spans are never dropped. If too many of them wait, no further
//! spans are made, so the number of ends is bounded too.
//!
//! The thread starts with the first wanted event, and again in a forked child. At the end of the process it gets a
//! short time to empty the queue. The bindings have separate queues and receive each event where it occurs.
//!
//! Spans are made on the caller's thread, below its current span, and closed on the log's thread. Without a subscriber
//! none are made.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::span::Id;
use tracing::{Dispatch, Span, dispatcher, info_span};

use super::record::{self, CallSite, Level, Record, Topic, Value};
use crate::runtime::background::on_background;
use crate::runtime::{Made, PerProcess, at_exit, delay_exit_while, lock};
use crate::text::shown;

/// The maximum number of events in the queue. Further events are dropped.
const MAX_EVENTS: u64 = 1024;
/// The number of queued ends of spans above which no further spans are made. Those of existing spans are still queued.
const MAX_ENDS: u64 = 4096;

/// The thread and the queue of this process.
static LOG_THREAD: PerProcess<Log> = PerProcess::new();
/// What was dropped and not yet reported.
static DROPPED: PerProcess<Dropped> = PerProcess::new();

#[derive(Default)]
struct Dropped {
    events: AtomicU64,
    /// Spans that were not made.
    spans: AtomicU64,
}

/// The sending end of the queue, and the progress of the thread.
struct Log {
    queue: Sender<LogEntry>,
    queued: AtomicU64,
    /// How many entries were processed so far. Equal to `queued` if the queue is empty.
    done: AtomicU64,
    /// The number of queued events that are not processed.
    events: AtomicU64,
    /// The number of queued ends that are not processed.
    ends: AtomicU64,
}

/// The subscriber and the span of an event.
pub(crate) struct LogContext {
    /// The subscriber of the thread where the event occurs. `None` if there is none, and events may go to the `log`
    /// crate.
    pub(crate) subscriber: Option<Dispatch>,
    /// The span that the event belongs to.
    pub(crate) span: Span,
    /// The parent of `span`.
    pub(crate) within: Span,
    /// Where the lease of the event was acquired, for a binding.
    call_site: Option<Arc<dyn CallSite>>,
}

impl LogContext {
    /// The context of a binding's lease, which has no spans.
    pub(crate) fn of_call(call_site: Arc<dyn CallSite>) -> Self {
        let (span, within) = (Span::none(), Span::none());
        Self { subscriber: None, span, within, call_site: Some(call_site) }
    }
}

/// Passes a record to the subscriber, below the given span.
pub(crate) type Say = fn(&Record, Option<Id>);

/// One entry of the queue. It is owned data.
enum LogEntry {
    Event(Record, Say, Arc<LogContext>),
    /// The last entry of a context. Dropping the context may run code of the subscriber.
    End(Arc<LogContext>),
}

/// Logs an event through the queue. All values have names, and those in braces are fields. `in` sets the context of the
/// event if it differs from the current one.
macro_rules! event {
    ($level:ident, $topic:ident, $(in $context:expr,)? {$($field:ident: $value:expr),* $(,)?},
     $text:literal $(, $name:ident = $part:expr)* $(,)?) => {
        // Nothing is formatted if the event is not wanted.
        if $crate::telemetry::log::wanted($crate::telemetry::Level::$level, $crate::telemetry::Topic::$topic) {
            let record = $crate::telemetry::Record {
                level: $crate::telemetry::Level::$level,
                topic: $crate::telemetry::Topic::$topic,
                template: $text,
                parts: vec![$((stringify!($name), $crate::text::shown(&$part.to_string()))),*],
                fields: vec![$((stringify!($field), $crate::telemetry::Value::from($value))),*],
                call_site: None,
            };
            #[allow(unused_variables, unused_mut, unused_assignments, reason = "not every event has parts and fields")]
            let say: $crate::telemetry::log::Say = |record, span| {
                let (mut parts, mut fields) = (record.parts.iter(), record.fields.iter());
                $(let $name = parts.next().map_or("", |(_, part)| part.as_str());)*
                $(let $field = fields.next().and_then(|(_, value)| $crate::telemetry::log::traced(value));)*
                tracing::event!(
                    target: $crate::telemetry::Topic::$topic.target(), parent: span,
                    $crate::telemetry::log::level($crate::telemetry::Level::$level),
                    $($field = $field,)* $text $(, $name = $name)*
                );
            };
            let context = None;
            $(let context = context.or($context);)?
            $crate::telemetry::log::enqueue(record, say, context);
        }
    };
}
pub(crate) use event;

/// Whether the event may be wanted. Calls no subscriber.
///
/// Without a subscriber, `tracing` may forward events to `log`. DEBUG events are not sent there, because of their cost.
#[inline]
pub(crate) fn wanted(level: Level, topic: Topic) -> bool {
    record::wants(level, topic)
        || self::level(level) <= LevelFilter::current()
        || (level < Level::Debug && !dispatcher::has_been_set() && !record::has_listener())
}

pub(crate) const fn level(level: Level) -> tracing::Level {
    match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
    }
}

/// The value in `tracing`. Texts have no quotes around them.
pub(crate) fn traced(value: &Value) -> Option<Box<dyn tracing::Value + '_>> {
    match value {
        Value::Text(text) => Some(Box::new(tracing::field::display(text))),
        Value::Number(number) => Some(Box::new(number)),
        Value::Count(count) => Some(Box::new(count)),
        Value::Nothing => None,
    }
}

/// Whether spans may be wanted and may be made here. The background thread must not wait for a subscriber.
pub(crate) fn spans_wanted() -> bool {
    LevelFilter::current() >= LevelFilter::WARN && !record::has_listener() && !on_background()
}

/// Queues an event for the log's thread. Never blocks, and never calls a subscriber's `event`.
pub(crate) fn enqueue(mut record: Record, say: Say, context: Option<Arc<LogContext>>) {
    record.call_site = context.as_ref().and_then(|context| context.call_site.clone());
    let Some(record) = record::pass_to_listener(record) else { return };
    let is_kept = context.is_some();
    let context = context.unwrap_or_else(|| here().into());
    // DEBUG events must not displace more important ones.
    let room = if record.level == Level::Debug { MAX_EVENTS / 2 } else { MAX_EVENTS };
    let log = current();
    if let Some(log) = &log
        && log.events.fetch_update(Ordering::AcqRel, Ordering::Acquire, less_than(room)).is_ok()
    {
        push(log, LogEntry::Event(record, say, context));
        return;
    }
    DROPPED.get_or_make(Dropped::default).events.fetch_add(1, Ordering::Relaxed);
    // The span may have ended meanwhile. Closing it runs code of the subscriber, which may block this thread.
    if is_kept && let Some(last) = Arc::into_inner(context) {
        enqueue_end(last.into());
    }
}

/// Adds one to a number below the limit.
fn less_than(limit: u64) -> impl Fn(u64) -> Option<u64> {
    move |count| (count < limit).then_some(count + 1)
}

fn take_dropped() -> [u64; 2] {
    DROPPED.get().map_or([0; 2], |dropped| {
        [&dropped.events, &dropped.spans].map(|count| count.swap(0, Ordering::Relaxed))
    })
}

/// Queues the end of a context, regardless of the limit. There are at most a few for each span that was made before the
/// limit was reached.
pub(crate) fn enqueue_end(context: Arc<LogContext>) {
    if let Some(log) = current() {
        log.ends.fetch_add(1, Ordering::AcqRel);
        push(&log, LogEntry::End(context));
    }
}

/// Whether the log's thread is too far behind for further spans. Counts a span that is not made for that reason.
fn is_behind() -> bool {
    let is_behind =
        LOG_THREAD.get().is_some_and(|log| log.ends.load(Ordering::Acquire) >= MAX_ENDS);
    if is_behind {
        DROPPED.get_or_make(Dropped::default).spans.fetch_add(1, Ordering::Relaxed);
    }
    is_behind
}

/// Queues an entry.
fn push(log: &Log, entry: LogEntry) {
    log.queued.fetch_add(1, Ordering::AcqRel);
    // Cannot fail, because the thread receives as long as its process has this queue.
    let _ = log.queue.send(entry);
}

/// The subscriber and span of the current thread. The background thread is in no span.
pub(crate) fn here() -> LogContext {
    let subscriber = dispatcher::has_been_set().then(|| dispatcher::get_default(Dispatch::clone));
    // If the subscriber panics here, the event has no span.
    let current = || catch_unwind(Span::current).unwrap_or_else(|_| Span::none());
    let span = if on_background() { Span::none() } else { current() };
    LogContext { subscriber, span, within: Span::none(), call_site: None }
}

/// The log of this process. `None` if the system has no thread for it.
fn current() -> Option<Arc<Made<Log>>> {
    LOG_THREAD.get_or_try_make(|_| true, start).ok()
}

/// Starts the log's thread, and registers the exit hook.
fn start() -> io::Result<Log> {
    static HOOKED: AtomicBool = AtomicBool::new(false);
    let (queue, entries) = channel();
    let thread = std::thread::Builder::new().name("redlock-log".into());
    thread.spawn(move || run(&entries))?;
    at_exit(&HOOKED, wait_for_log);
    let [queued, done, events, ends] = [(); 4].map(|()| AtomicU64::new(0));
    Ok(Log { queue, queued, done, events, ends })
}

/// Runs until the queue is closed. This only happens if two threads started a log at the same time.
fn run(entries: &Receiver<LogEntry>) {
    for entry in entries {
        let is_event = matches!(entry, LogEntry::Event(..));
        let context = match entry {
            LogEntry::Event(record, say, context) => {
                emit(&context, |span| say(&record, span));
                // Reported after an event that had room, to the subscriber of that event.
                let [events, spans] = take_dropped();
                if events > 0 {
                    emit(&context, |_| report_events(events));
                }
                if spans > 0 {
                    emit(&context, |_| report_spans(spans));
                }
                context
            }
            LogEntry::End(context) => context,
        };
        // Dropping the context may run code of the subscriber.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(context)));
        if let Some(log) = LOG_THREAD.get() {
            let count = if is_event { &log.events } else { &log.ends };
            count.fetch_sub(1, Ordering::AcqRel);
            log.done.fetch_add(1, Ordering::Release);
        }
    }
}

/// Ignores a panic of the subscriber. The panic hook has already reported it.
fn emit(context: &LogContext, say: impl FnOnce(Option<Id>)) {
    let say = || say(context.span.id().or_else(|| context.within.id()));
    let _ = catch_unwind(AssertUnwindSafe(|| match &context.subscriber {
        Some(subscriber) => dispatcher::with_default(subscriber, say),
        None => say(),
    }));
}

fn report_events(dropped: u64) {
    tracing::warn!(target: "redlock", dropped, "events were dropped because the subscriber is too slow");
}

fn report_spans(dropped: u64) {
    tracing::warn!(target: "redlock", dropped, "spans were not made because the subscriber is too slow");
}

/// The exit hook. Waits for the last events, unless the subscriber is too slow.
extern "C" fn wait_for_log() {
    let Some(log) = LOG_THREAD.get() else { return };
    delay_exit_while(|| log.done.load(Ordering::Acquire) < log.queued.load(Ordering::Acquire));
}

/// The span of one acquire or one lease, below the caller's span.
///
/// Boxed, because an acquire's future is already large and is moved.
pub(crate) struct Spans(Option<Box<Mutex<Option<Arc<LogContext>>>>>);

impl Spans {
    pub(crate) fn acquire(key: impl FnOnce() -> String) -> Self {
        if !spans_wanted() || is_behind() {
            return Self(None);
        }
        Self::new_span(here, |within| {
            info_span!(
                target: "redlock::acquire", parent: within, "redlock.acquire",
                key = shown(&key()), outcome = Empty, waited_ms = Empty, holder = Empty
            )
        })
    }

    /// The span of the lease that this acquire returned.
    pub(crate) fn hold_span(&self, key: impl FnOnce() -> String, token: &str) -> Option<Self> {
        let acquire = self.log_context()?;
        let within = || LogContext {
            subscriber: acquire.subscriber.clone(),
            span: acquire.within.clone(),
            within: Span::none(),
            call_site: None,
        };
        let held = Self::new_span(within, |within| holds(within, &key(), token));
        // Dropped on the log's thread, because this may be the last reference.
        enqueue_end(acquire);
        Some(held)
    }

    pub(crate) fn attached(key: impl FnOnce() -> String, token: &str) -> Option<Self> {
        let are_wanted = spans_wanted() && !is_behind();
        are_wanted.then(|| Self::new_span(here, |within| holds(within, &key(), token)))
    }

    /// Makes a span below another one. If the subscriber panics, no span is made.
    fn new_span(outer: impl FnOnce() -> LogContext, make: impl FnOnce(&Span) -> Span) -> Self {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let outer = outer();
            let span = make(&outer.span);
            LogContext { span, within: outer.span, subscriber: outer.subscriber, call_site: None }
        }));
        Self(begun.ok().map(|place| Box::new(Mutex::new(Some(Arc::new(place))))))
    }

    /// The log context of the events, until [`Self::end`].
    pub(crate) fn log_context(&self) -> Option<Arc<LogContext>> {
        lock(self.0.as_ref()?).clone()
    }

    /// Records the outcome of the acquire, and the label of the holder if it refused.
    pub(crate) fn record_outcome(&self, outcome: &str, waited: Duration, holder: Option<&str>) {
        let Some(place) = self.log_context() else { return };
        let _ = catch_unwind(AssertUnwindSafe(|| {
            place.span.record("outcome", outcome).record("waited_ms", waited.as_secs_f64() * 1e3);
            if let Some(holder) = holder {
                place.span.record("holder", holder);
            }
        }));
        // Dropped on the log's thread, because this may be the last reference.
        enqueue_end(place);
    }

    pub(crate) fn end_span(&self) {
        let context = self.0.as_ref().and_then(|context| lock(context).take());
        context.into_iter().for_each(enqueue_end);
    }
}

fn holds(within: &Span, key: &str, token: &str) -> Span {
    info_span!(target: "redlock::lease", parent: within, "redlock.hold", key = shown(key), token)
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.end_span();
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn forked_child_does_not_report_events_that_its_parent_dropped() {
        use super::{DROPPED, Dropped, Ordering, take_dropped};
        DROPPED.get_or_make(Dropped::default).events.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the child runs only the tested code and exits immediately.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the first ends a child that hangs, the second ends no state of the parent.
            unsafe {
                libc::alarm(60);
                libc::_exit((take_dropped() != [0; 2]).into());
            }
        }
        let mut status = 0;
        // SAFETY: the pointer to the status is valid.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
    }
}
