//! What the library has to say, on its way to the program's `tracing` subscriber.
//!
//! A subscriber is the program's own code: it may block (a full pipe), panic, or call this library. So one thread that
//! does nothing else calls it. Who has something to say leaves it in a bounded queue, as owned data, and goes on; what
//! has no room is dropped and counted, and the count is logged as soon as there is room.
//!
//! The thread is started with the first event that somebody might want, and anew in a forked child. At the end of the
//! process it gets a moment to empty the queue.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(unix)]
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::span::Id;
use tracing::{Dispatch, Level, Span, dispatcher};

use crate::background::on_background;
use crate::per_process::{Made, PerProcess};

/// More events than this wait for nobody.
const ROOM: usize = 1024;
/// How long the end of the process may take because of us.
#[cfg(unix)]
const LAST_WORDS: Duration = Duration::from_millis(200);

/// This process's thread and queue.
static CURRENT: PerProcess<Log> = PerProcess::new();
/// Events that found no room since it was last said.
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// No queue and no thread: see [`log_in_place`].
static IN_PLACE: AtomicBool = AtomicBool::new(false);

/// The queue's near end, and how far the thread has come.
struct Log {
    queue: SyncSender<Entry>,
    /// How many events were left in the queue.
    left: AtomicU64,
    /// How many of them were said: as many as were left, once it is empty.
    said: AtomicU64,
}

/// One event, as owned data: nothing in it borrows from whoever says it.
struct Entry {
    /// That of the thread that says it, which may have one of its own; `None`: there is none, and `log` may be
    /// listening.
    subscriber: Option<Dispatch>,
    /// Where its thread was.
    span: Span,
    /// Makes the event, below the span that is given.
    say: Box<dyn FnOnce(Option<Id>) + Send>,
}

/// Logs as `tracing::event!` does, by way of the queue. All values have names; those in braces are fields.
macro_rules! event {
    ($level:ident, {$($field:ident: $value:expr),* $(,)?}, $text:literal $(, $name:ident = $part:expr)* $(,)?) => {
        // Nothing is even formatted where nobody listens.
        if $crate::log::wanted(tracing::Level::$level) {
            $(let $field = $crate::text::shown(&$value.to_string());)*
            $(let $name = $crate::text::shown(&$part.to_string());)*
            $crate::log::leave(move |span| tracing::event!(
                target: "redlock", parent: span, tracing::Level::$level, $($field = %$field,)* $text $(, $name = $name)*
            ));
        }
    };
}
pub(crate) use event;

/// For a subscriber that is known neither to block nor to call back: events go to it where they happen, in order.
///
/// For both bindings: theirs leave plain data in a queue of their own.
pub fn log_in_place() {
    IN_PLACE.store(true, Ordering::Relaxed);
}

/// Whether somebody might listen; no subscriber is asked. Without any, `tracing` may hand events on to `log`.
pub(crate) fn wanted(level: Level) -> bool {
    level <= LevelFilter::current() || !dispatcher::has_been_set()
}

/// Leaves an event for the log's thread; never blocks, never calls a subscriber's `event`.
pub(crate) fn leave(say: impl FnOnce(Option<Id>) + Send + 'static) {
    if IN_PLACE.load(Ordering::Relaxed) {
        // Even so: a lease must not end by what its log does.
        let _ = catch_unwind(AssertUnwindSafe(|| say(None)));
        return;
    }
    let subscriber = dispatcher::has_been_set().then(|| dispatcher::get_default(Dispatch::clone));
    // The background thread is in no span; elsewhere the caller's own thread asks its own subscriber.
    let span = if on_background() { Span::none() } else { current_span() };
    let entry = Entry { subscriber, span, say: Box::new(say) };
    let Some(log) = current() else {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    };
    if log.queue.try_send(entry).is_ok() {
        log.left.fetch_add(1, Ordering::Release);
    } else {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A subscriber that panics when it is asked for its span has none.
fn current_span() -> Span {
    catch_unwind(Span::current).unwrap_or_else(|_| Span::none())
}

/// This process's log; `None` if the system has no thread for it.
fn current() -> Option<Arc<Made<Log>>> {
    CURRENT.get_or_try_make(|_| true, start).ok()
}

/// The log's own thread, and what has its last words written when the process ends.
fn start() -> io::Result<Log> {
    let (queue, entries) = sync_channel(ROOM);
    let thread = std::thread::Builder::new().name("redlock-log".into());
    thread.spawn(move || run(&entries))?;
    #[cfg(unix)]
    {
        static AT_EXIT: Once = Once::new();
        // SAFETY: the hook only reads atomics and sleeps.
        AT_EXIT.call_once(|| unsafe {
            libc::atexit(last_words);
        });
    }
    Ok(Log { queue, left: AtomicU64::new(0), said: AtomicU64::new(0) })
}

/// Ends when the queue's other end goes, which it does only where two threads made a log at once.
fn run(entries: &Receiver<Entry>) {
    for Entry { subscriber, span, say } in entries {
        emit(subscriber.as_ref(), || say(span.id()));
        // Said behind an event that had room, by whose subscriber it is heard.
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            emit(subscriber.as_ref(), || count(dropped));
        }
        // Their ends are the subscriber's code, too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop((span, subscriber))));
        if let Some(log) = CURRENT.get() {
            log.said.fetch_add(1, Ordering::Release);
        }
    }
}

/// A panic here is the subscriber's; the panic hook has said so.
fn emit(subscriber: Option<&Dispatch>, say: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(|| match subscriber {
        Some(subscriber) => dispatcher::with_default(subscriber, say),
        None => say(),
    }));
}

/// What was not said.
fn count(dropped: u64) {
    tracing::warn!(target: "redlock", dropped, "events were dropped: the subscriber was too slow for them");
}

/// What was said just before the end is heard, unless the subscriber is too slow.
#[cfg(unix)]
extern "C" fn last_words() {
    const SLICE: Duration = Duration::from_millis(1);
    let Some(log) = CURRENT.get() else { return };
    let mut waited = Duration::ZERO;
    while log.said.load(Ordering::Acquire) < log.left.load(Ordering::Acquire) && waited < LAST_WORDS
    {
        std::thread::sleep(SLICE);
        waited += SLICE;
    }
}
