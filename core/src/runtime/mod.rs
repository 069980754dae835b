//! The threads and the process: the background thread, how threads sleep and are woken, forks, and the process's end.
//!
//! After a fork, the child uses nothing that threads of the parent serve. [`per_process`] makes such values again at
//! their next use, and ends calls of the parent that the child continues.

// For the files that tests/models includes, where loom's atomics replace it.
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
pub(crate) use std::sync::atomic;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::unconstrained;

pub(crate) mod background;
mod descriptors;
pub(crate) mod environment;
mod exclusive;
mod host;
pub(crate) mod machine;
mod per_process;
pub(crate) mod timers;
mod turn;
mod wake_handle;
mod wakeup;

pub use descriptors::{Dependent, depend, descriptor_generation};
pub(crate) use exclusive::{Exclusive, Visitor, Visitors};
pub(crate) use host::host_name;
pub use per_process::{Made, Owned, PerProcess, fork_generation};
pub(crate) use turn::CallTurn;
pub(crate) use wake_handle::WakeHandle;

/// Uses a value of this thread. `act` must not run foreign code. Returns `None` if the thread is ending.
pub(crate) fn with_local<T, R>(
    local: &'static LocalKey<RefCell<T>>,
    act: impl FnOnce(&mut T) -> R,
) -> Option<R> {
    local.try_with(|value| value.try_borrow_mut().ok().map(|mut value| act(&mut value))).ok()?
}

/// Locks a mutex, also after a panic of a thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, also after a panic of a thread that held it. Returns `None` if another thread holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes the next value of a queue. `Pending` means that there is none, or that a thread is just adding one. That
/// thread must visit the receiver afterwards.
pub(crate) fn poll_next<T>(queue: &mut UnboundedReceiver<T>) -> Poll<Option<T>> {
    // Not `try_recv`: it waits for such a thread, which may be suspended.
    let next = unconstrained(poll_fn(|cx| queue.poll_recv(cx)));
    pin!(next).poll(&mut Context::from_waker(Waker::noop()))
}

/// Twice the stack space that the work of a connection needs.
const NEEDED_STACK: usize = 96 << 10;

thread_local! {
    /// The lowest address of this thread's stack. `None` before the first check, and 0 if the system does not tell.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether this thread's stack has enough space left for the work of a connection.
pub(crate) fn has_stack_space() -> bool {
    // Its address is the current position.
    let marker = std::hint::black_box(0_u8);
    let here = std::ptr::from_ref(&marker).addr();
    let lowest = LOWEST.try_with(|known| {
        known.get().unwrap_or_else(|| {
            let lowest = lowest().unwrap_or(0);
            known.set(Some(lowest));
            lowest
        })
    });
    lowest.is_ok_and(|lowest| here.saturating_sub(lowest) >= NEEDED_STACK)
}

/// Returns the lowest address of this thread's stack.
#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut address, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the first call writes the attributes. They are read and destroyed once, and only if it succeeded.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let known =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut address, &raw mut size)
                == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        known.then_some(address.addr())
    }
}

/// Returns the lowest address of this thread's stack.
#[cfg(target_vendor = "apple")]
fn lowest() -> Option<usize> {
    // SAFETY: both calls only read data of this thread.
    unsafe {
        let this = libc::pthread_self();
        let highest = libc::pthread_get_stackaddr_np(this).addr();
        highest.checked_sub(libc::pthread_get_stacksize_np(this))
    }
}

/// Other systems have no threads with small stacks.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn lowest() -> Option<usize> {
    None
}

/// The number of deletes that were passed to a connection and have no reply yet.
static UNDER_WAY: PerProcess<AtomicUsize> = PerProcess::new();

/// A delete that was passed to a connection and has no reply yet. The end of the process is delayed briefly for it.
///
/// Without the delay, the key of a lease that is dropped at the end of the program would stay until its TTL ends. The
/// deletes are only counted. The background thread sends and retries them until the process ends.
pub(crate) struct UnderWay(Arc<Made<AtomicUsize>>);

impl UnderWay {
    /// Counts a delete that is passed to a connection.
    pub(crate) fn count_delete() -> Self {
        let count = UNDER_WAY.get_or_make(AtomicUsize::default);
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // In a forked child, this number of the parent is not used.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection, at the end of the process. It may hold back commands until the event loop that requested them ends its
/// turn, and acquires may be in flight.
pub(crate) trait Flush: Send + Sync {
    /// Sends the commands, and deletes what the acquires in flight leave behind. Must not wait.
    fn flush(&self);
}

/// One more than the [`fork_generation`] of the process that ends, so that no acquire may begin in it. A child that is
/// forked meanwhile does not end.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Whether the process ends. Its threads continue until the deletes have their replies.
pub(crate) fn is_ending() -> bool {
    let ending = ENDING.load(Ordering::Relaxed);
    ending != 0 && ending == fork_generation() + 1
}

/// The connections of this process.
static CONNECTIONS: PerProcess<Mutex<Vec<Weak<dyn Flush>>>> = PerProcess::new();

/// Registers a connection for the end of the process.
pub(crate) fn flush_at_exit(connection: Weak<dyn Flush>) {
    at_exit(&HOOKED, end_commands);
    let connections = CONNECTIONS.get_or_make(Mutex::default);
    let mut connections = lock(&connections);
    connections.retain(|known| known.strong_count() > 0);
    connections.push(connection);
}

fn flush_all() {
    let Some(connections) = CONNECTIONS.get() else { return };
    // Not waited for. Another thread only locks it while it makes a client.
    let Ok(connections) = connections.try_lock() else { return };
    connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.flush());
}

/// Whether the exit hook is registered.
static HOOKED: AtomicBool = AtomicBool::new(false);

/// The exit hook: sends what is held back, ends the acquires in flight, and waits for the deletes.
extern "C" fn end_commands() {
    ENDING.store(fork_generation() + 1, Ordering::Relaxed);
    flush_all();
    delay_exit_while(|| UNDER_WAY.get().is_some_and(|count| count.load(Ordering::Relaxed) > 0));
}

/// Registers a hook for the end of the process, unless it is `hooked`. `abort` and `_exit` do not call it.
///
/// It must not panic or wait for a lock that a terminated thread may hold.
pub(crate) fn at_exit(hooked: &AtomicBool, hook: extern "C" fn()) {
    if !hooked.load(Ordering::Relaxed) && !hooked.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        // SAFETY: the hooks read atomics, wake the background thread and sleep.
        unsafe {
            libc::atexit(hook);
        }
        #[cfg(not(unix))]
        let _ = hook;
    }
}

/// Delays the end of the process briefly, while this is true.
pub(crate) fn delay_exit_while(is_waiting: impl Fn() -> bool) {
    /// The maximum delay of the exit, which users notice.
    const MAX_EXIT_DELAY: Duration = Duration::from_millis(200);
    let begun = Instant::now();
    while is_waiting() && begun.elapsed() < MAX_EXIT_DELAY {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn visitor_is_served_after_a_panic_inside() {
        let value = Exclusive::new(());
        let enter =
            |visitor, act: &dyn Fn()| value.try_with(visitor, |()| act()).map(|used| used.1);
        let panics = || {
            assert!(enter(Visitor::Task, &|| ()).is_none());
            panic!("on purpose");
        };
        let inside = AssertUnwindSafe(|| enter(Visitor::Thread, &panics));
        assert!(catch_unwind(inside).is_err());
        assert!(enter(Visitor::Thread, &|| ()).unwrap().include(Visitor::Task));
        assert!(!enter(Visitor::Thread, &|| ()).unwrap().include(Visitor::Task));
    }
}
