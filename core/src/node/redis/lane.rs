//! A connection that is lent: to whichever thread waits for an answer, and else to its own task.
//!
//! A thread that asks and then waits needs nobody's help: it writes, sleeps until there is something to read, and reads. A hop
//! to another thread and back costs more than all that a lock is. So the session stands between them, and whoever has
//! something to do with it takes it for a moment. Nobody ever waits to get it: who has it looks again before it goes
//! ([`Lane::turn`]), so that a thread of any priority that is suspended in here holds up one connection, and not the thread
//! of all of them.
//!
//! One thread at a time has the *seat*, and reads for all. Where several want it, the connection's own task reads instead: to
//! hand the seat from thread to thread would cost as much as the task does, and more than one batch of its answers.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod receipt;
mod seat;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod waiting;

use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::sync::Notify;

#[cfg(any(target_os = "linux", target_os = "android"))]
use self::receipt::Receipts;
use super::session::Session;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::foreground::Poller;
use crate::foreground::Way;
use crate::runtime::fork_generation;

/// There is no connection.
const NOWHERE: i32 = -1;

/// Who may read a connection: the low bits of its role. The other bits count the changes, so that a thread notices when
/// its role has ended.
const WHO: u64 = 3;
/// No thread reads. The background thread does, until a thread takes the role.
const FREE: u64 = 0;
/// A thread or a loop.
const THREAD: u64 = 1;
/// Only the background thread, because notifications arrive here, or because there is no connection.
const BACKGROUND: u64 = 2;

/// The role that follows `role`, of this reader.
fn next_role(role: u64, who: u64) -> u64 {
    (role | WHO).wrapping_add(1) | who
}

/// One connection, between the threads that use it.
pub(super) struct Lane {
    /// The session, while there is one.
    session: Mutex<Option<Session>>,
    /// Somebody asked since whoever has it last looked.
    again: AtomicBool,
    /// Wakes the connection's own task.
    call: Notify,
    /// The task could not get the session.
    missed: AtomicBool,
    /// The task is to read, too, what was asked by now.
    help: AtomicBool,
    /// Whether answers are still to come.
    open: AtomicBool,
    /// What a thread read last may not have been all.
    more: AtomicBool,
    /// Who may read: see [`WHO`].
    role: AtomicU64,
    /// By what threads wait.
    descriptor: AtomicI32,
    /// The loop that watches it. Held for a change of it, of the seat's end and of the descriptor's only.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    watcher: Mutex<Option<Arc<Poller>>>,
    /// So often nobody tries for it.
    crowd: AtomicU32,
    /// How often that was, when two wanted it last.
    crowds: AtomicU32,
    /// How many had it since.
    alone: AtomicU32,
    /// The task looks from time to time whether there is silence.
    watched: AtomicBool,
    /// What came to a thread that waited in the socket.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    receipts: Arc<Receipts>,
    /// A forked child has none of this.
    generation: u32,
}

impl Lane {
    /// There is no session yet.
    pub(super) fn new() -> Self {
        Self {
            session: Mutex::new(None),
            again: AtomicBool::new(false),
            call: Notify::new(),
            missed: AtomicBool::new(false),
            help: AtomicBool::new(false),
            open: AtomicBool::new(false),
            more: AtomicBool::new(false),
            role: AtomicU64::new(BACKGROUND),
            descriptor: AtomicI32::new(NOWHERE),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            watcher: Mutex::new(None),
            crowd: AtomicU32::new(0),
            crowds: AtomicU32::new(0),
            alone: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            receipts: Arc::default(),
            generation: fork_generation(),
        }
    }

    /// Has its own task look.
    pub(super) fn call(&self) {
        // In a forked child there is no such task, and its bell may be locked for ever.
        if self.generation == fork_generation() {
            self.call.notify_one();
        }
    }

    /// Ends once somebody has called.
    pub(super) async fn called(&self) {
        self.call.notified().await;
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Session>>> {
        match self.session.try_lock() {
            Ok(session) => Some(session),
            Err(TryLockError::Poisoned(session)) => Some(session.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// For the connection's own task: something to do with the session, unless another thread has it, which then calls.
    pub(super) fn visit<T>(&self, act: impl FnOnce(&mut Option<Session>) -> T) -> Option<T> {
        // Before it is tried: who has it looks afterwards.
        self.missed.store(true, Ordering::SeqCst);
        let mut session = self.try_lock()?;
        self.missed.store(false, Ordering::SeqCst);
        let answer = act(&mut session);
        self.open.store(session.as_ref().is_some_and(Session::is_open), Ordering::SeqCst);
        drop(session);
        if self.again.load(Ordering::SeqCst) {
            self.turn(false);
        }
        Some(answer)
    }

    /// A session begins, with something that comes before all else.
    pub(super) fn lend(&self, session: Session, first: impl FnOnce(&mut Session)) {
        let mut place = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = place.insert(session);
        first(session);
        #[cfg(unix)]
        self.descriptor.store(session.descriptor(), Ordering::SeqCst);
    }

    /// Lets threads read the connection, which carries only replies from now on.
    pub(super) fn share(&self) {
        let free = |role| (role & WHO == BACKGROUND).then(|| next_role(role, FREE));
        let _ = self.role.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free);
    }

    /// The session, in its end, whoever has it now.
    pub(super) fn take_back(&self) -> Option<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// There is no session any more, and nobody sits there.
    pub(super) fn closed(&self) {
        self.open.store(false, Ordering::SeqCst);
        self.unwatched_by_loop(|| {
            // A thread that has the role finds that it has ended.
            let ended = |role| Some(next_role(role, BACKGROUND));
            let _ = self.role.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended);
            Some(self.descriptor.swap(NOWHERE, Ordering::SeqCst))
        });
    }

    /// Whether a thread has the seat, and somebody has asked lately. Who asks no more may not look any more either, and would
    /// not see that the connection ends.
    pub(super) fn is_threads(&self) -> bool {
        self.role.load(Ordering::SeqCst) & WHO == THREAD && self.watched.load(Ordering::SeqCst)
    }

    /// Whether somebody asked the task to read, too; asked once.
    pub(super) fn helps(&self) -> bool {
        self.help.swap(false, Ordering::SeqCst)
    }

    /// Whether threads use it, and the task is to look from time to time.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// The task looks no more: nobody has asked for a while.
    pub(super) fn unwatch(&self) {
        self.watched.store(false, Ordering::SeqCst);
        // Whoever asked just now saw that it looks.
        if self.open.load(Ordering::SeqCst) {
            self.watched.store(true, Ordering::SeqCst);
        }
    }

    /// By whoever has the session. A store costs as much as all the rest of a look.
    fn note_open(&self, open: bool) {
        if self.open.load(Ordering::SeqCst) != open {
            self.open.store(open, Ordering::SeqCst);
        }
    }

    /// A session's turn on a thread that waits.
    fn run(&self, session: &mut Session, read: bool) {
        let lent = session.is_lent();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            self.take_receipt(session);
            session.write();
            if read {
                self.more.store(session.read().leaves_more(), Ordering::SeqCst);
            }
            if self.is_threads() {
                session.leave_to_threads();
            }
        }));
        if let Err(panic) = ran {
            // Told by the task, as if it had been its own.
            session.panicked(panic);
        }
        self.note_open(session.is_open());
        // From now on it looks whether the server is silent, until nobody has asked for a while.
        let unwatched = session.is_open()
            && !self.watched.load(Ordering::SeqCst)
            && !self.watched.swap(true, Ordering::SeqCst);
        // Its task could not read while a thread waited in the socket.
        let returned = lent && !session.is_lent();
        if unwatched || session.wants_task() || (returned && session.is_kept()) {
            self.call();
        }
    }
}
