//! What the library has to say, on its way to the program's `tracing` subscriber.
//!
//! A subscriber is the program's own code: it may block (a full pipe), panic, or call this library. So one thread that
//! does nothing else calls it. Who has something to say leaves it in a bounded queue, as owned data, and goes on; what
//! has no room is dropped and counted, and the count is logged as soon as there is room. Half of the room is kept from
//! DEBUG events: a flood of them drowns no warning.
//!
//! The thread is started with the first event that somebody might want, and anew in a forked child. At the end of the
//! process it gets a moment to empty the queue. Bindings have queues of their own, and get each event where it happens.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
#[cfg(unix)]
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::span::Id;
use tracing::{Dispatch, Span, dispatcher};

use crate::background::on_background;
use crate::listener;
use crate::per_process::{Made, PerProcess};
use crate::record::{Level, Record, Topic, Value};

/// More events than this wait for nobody.
const ROOM: u64 = 1024;
/// How long the end of the process may take because of us.
#[cfg(unix)]
const LAST_WORDS: Duration = Duration::from_millis(200);

/// This process's thread and queue.
static CURRENT: PerProcess<Log> = PerProcess::new();
/// Events that found no room since it was last said.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The queue's near end, and how far the thread has come.
struct Log {
    queue: Sender<Entry>,
    /// How many entries were left in the queue.
    left: AtomicU64,
    /// How many of them are done: as many as were left, once it is empty.
    done: AtomicU64,
    events: AtomicU64, // of those that are not done: what ends a place takes no event's room
}

/// Who hears an event, and in which span.
pub(crate) struct Place {
    /// That of the thread that says it, which may have one of its own; `None`: there is none, and `log` may be
    /// listening.
    pub(crate) subscriber: Option<Dispatch>,
    /// Where its thread was.
    pub(crate) span: Span,
    /// Where it was before that.
    pub(crate) within: Span,
}

/// Hands a record on to the subscriber, below the span that is given.
pub(crate) type Say = fn(&Record, Option<Id>);

/// What the log's thread is to do, as owned data: nothing in it borrows from whoever leaves it.
enum Entry {
    Event(Record, Say, Arc<Place>),
    /// The last that is heard from there: what ends with it is the subscriber's code, too.
    Leave(Arc<Place>),
}

/// Logs by way of the queue. All values have names; those in braces are fields. `in` says where it belongs, if that is
/// not where this thread is.
macro_rules! event {
    ($level:ident, $topic:ident, $(in $place:expr,)? {$($field:ident: $value:expr),* $(,)?},
     $text:literal $(, $name:ident = $part:expr)* $(,)?) => {
        // Nothing is even formatted where nobody listens.
        if $crate::log::wanted($crate::record::Level::$level, $crate::record::Topic::$topic) {
            let record = $crate::record::Record {
                level: $crate::record::Level::$level,
                topic: $crate::record::Topic::$topic,
                template: $text,
                parts: vec![$((stringify!($name), $crate::text::shown(&$part.to_string()))),*],
                fields: vec![$((stringify!($field), $crate::record::Value::from($value))),*],
            };
            #[allow(unused_variables, unused_mut, unused_assignments, reason = "not every event has parts and fields")]
            let say: $crate::log::Say = |record, span| {
                let (mut parts, mut fields) = (record.parts.iter(), record.fields.iter());
                $(let $name = parts.next().map_or("", |(_, part)| part.as_str());)*
                $(let $field = fields.next().and_then(|(_, value)| $crate::log::traced(value));)*
                tracing::event!(
                    target: $crate::record::Topic::$topic.target(), parent: span,
                    $crate::log::level($crate::record::Level::$level),
                    $($field = $field,)* $text $(, $name = $name)*
                );
            };
            let place = None;
            $(let place = place.or($place);)?
            $crate::log::leave(record, say, place);
        }
    };
}
pub(crate) use event;

/// Whether somebody might listen; no subscriber is asked. Without any, `tracing` may hand events on to `log`, where steps
/// are not worth what they cost everybody else.
#[inline]
pub(crate) fn wanted(level: Level, topic: Topic) -> bool {
    listener::wants(level, topic)
        || self::level(level) <= LevelFilter::current()
        || (level < Level::Debug && !dispatcher::has_been_set() && !listener::is_there())
}

/// As `tracing` calls it.
pub(crate) const fn level(level: Level) -> tracing::Level {
    match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
    }
}

/// As `tracing` takes it: texts as they are, without quotes around them.
pub(crate) fn traced(value: &Value) -> Option<Box<dyn tracing::Value + '_>> {
    match value {
        Value::Text(text) => Some(Box::new(tracing::field::display(text))),
        Value::Number(number) => Some(Box::new(number)),
        Value::Count(count) => Some(Box::new(count)),
        Value::Nothing => None,
    }
}

/// Whether spans might be wanted, and may be made: not on a thread that must not wait for a subscriber.
pub(crate) fn spans_wanted() -> bool {
    LevelFilter::current() >= LevelFilter::WARN && !listener::is_there() && !on_background()
}

/// Leaves an event for the log's thread; never blocks, never calls a subscriber's `event`.
pub(crate) fn leave(record: Record, say: Say, place: Option<Arc<Place>>) {
    let Some(record) = listener::pass(record) else { return };
    let place = place.unwrap_or_else(|| here().into());
    // What only shows the way must not drown what somebody should see.
    let room = if record.level == Level::Debug { ROOM / 2 } else { ROOM };
    let left = current().is_some_and(|log| {
        let left = log.events.fetch_add(1, Ordering::AcqRel) < room
            && push(&log, Entry::Event(record, say, place));
        log.events.fetch_sub((!left).into(), Ordering::AcqRel);
        left
    });
    DROPPED.fetch_add((!left).into(), Ordering::Relaxed);
}

/// Nothing more is said there. However full it is: there are no more of these than there are leases.
pub(crate) fn leave_place(place: Arc<Place>) {
    if let Some(log) = current() {
        push(&log, Entry::Leave(place));
    }
}

/// Whether its thread is there.
fn push(log: &Log, entry: Entry) -> bool {
    log.left.fetch_add(1, Ordering::AcqRel);
    let left = log.queue.send(entry).is_ok();
    if !left {
        log.left.fetch_sub(1, Ordering::AcqRel);
    }
    left
}

/// The caller's own thread asks its own subscriber where it is; the background thread is in no span.
pub(crate) fn here() -> Place {
    let subscriber = dispatcher::has_been_set().then(|| dispatcher::get_default(Dispatch::clone));
    // A subscriber that panics when it is asked for its span has none.
    let current = || catch_unwind(Span::current).unwrap_or_else(|_| Span::none());
    let span = if on_background() { Span::none() } else { current() };
    Place { subscriber, span, within: Span::none() }
}

/// This process's log; `None` if the system has no thread for it.
fn current() -> Option<Arc<Made<Log>>> {
    CURRENT.get_or_try_make(|_| true, start).ok()
}

/// The log's own thread, and what has its last words written when the process ends.
fn start() -> io::Result<Log> {
    let (queue, entries) = channel();
    let thread = std::thread::Builder::new().name("redlock-log".into());
    thread.spawn(move || run(&entries))?;
    #[cfg(unix)]
    {
        static AT_EXIT: AtomicBool = AtomicBool::new(false);
        if !AT_EXIT.swap(true, Ordering::Relaxed) {
            // SAFETY: the hook only reads atomics and sleeps.
            unsafe {
                libc::atexit(last_words);
            }
        }
    }
    let [left, done, events] = [(); 3].map(|()| AtomicU64::new(0));
    Ok(Log { queue, left, done, events })
}

/// Ends when the queue's other end goes, which it does only where two threads made a log at once.
fn run(entries: &Receiver<Entry>) {
    for entry in entries {
        let event = matches!(entry, Entry::Event(..));
        let place = match entry {
            Entry::Event(record, say, place) => {
                emit(&place, |span| say(&record, span));
                // Said behind an event that had room, by whose subscriber it is heard.
                let dropped = DROPPED.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    emit(&place, |_| count(dropped));
                }
                place
            }
            Entry::Leave(place) => place,
        };
        // Its end is the subscriber's code, too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(place)));
        if let Some(log) = CURRENT.get() {
            log.events.fetch_sub(event.into(), Ordering::AcqRel);
            log.done.fetch_add(1, Ordering::Release);
        }
    }
}

/// A panic here is the subscriber's; the panic hook has said so.
fn emit(place: &Place, say: impl FnOnce(Option<Id>)) {
    let say = || say(place.span.id().or_else(|| place.within.id()));
    let _ = catch_unwind(AssertUnwindSafe(|| match &place.subscriber {
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
    while log.done.load(Ordering::Acquire) < log.left.load(Ordering::Acquire) && waited < LAST_WORDS
    {
        std::thread::sleep(SLICE);
        waited += SLICE;
    }
}
