//! Wakes a waiting thread or an event loop from any thread.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Duration;

use super::wakeup::{SleepKind, Wakeup};
use crate::runtime::{Made, Owned, PerProcess};

/// The maximum number of threads that keep their descriptor between two waits. Any other thread opens one for each
/// wait, so that a process with many threads does not run out of descriptors because each has waited once.
const MAX_KEPT: usize = 64;

/// The number of threads that keep their descriptor.
static KEEPING: PerProcess<AtomicUsize> = PerProcess::new();

/// A handle of a thread that keeps its descriptor.
type Kept = Owned<(Arc<WakeHandle>, Slot)>;

thread_local! {
    /// This thread's last handle, if it may keep one.
    static LAST: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// The right of one thread to keep its descriptor between two waits.
struct Slot(Arc<Made<AtomicUsize>>);

impl Slot {
    /// Returns `None` if [`MAX_KEPT`] threads have one.
    fn take() -> Option<Self> {
        let kept = KEEPING.get_or_make(AtomicUsize::default);
        let more = |count: usize| (count < MAX_KEPT).then(|| count + 1);
        let taken = kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        // Not `then_some`: dropping a slot that was not taken would free another thread's.
        taken.then(|| Self(kept))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Wakes one thread or event loop. It may outlive both.
pub(crate) struct WakeHandle {
    wakeup: Wakeup,
    /// Shared by all handles of a thread. `None` if the thread only parks.
    descriptor: Option<Arc<WakeDescriptor>>,
    thread: Thread,
}

impl WakeHandle {
    /// Makes a handle of this thread.
    fn new(descriptor: Option<Arc<WakeDescriptor>>) -> Arc<Self> {
        Arc::new(Self { wakeup: Wakeup::new(), descriptor, thread: thread::current() })
    }

    /// Returns a handle of this thread that no other thread has, and that was rung. Returns `None` if the thread is
    /// ending, or if the system has no descriptor left.
    pub(crate) fn of_thread() -> Option<Arc<Self>> {
        LAST.try_with(|last| {
            let mut last = last.try_borrow_mut().ok()?;
            // A child must not ring its parent, or read the parent's rings. The number may also belong to another part
            // of the program.
            last.take_if(|last| !last.is_ours());
            let Some(last) = &mut *last else {
                let new = Self::new(Some(Arc::new(WakeDescriptor::open().ok()?)));
                *last = Slot::take().map(|slot| Owned::new((Arc::clone(&new), slot)));
                return Some(new);
            };
            // Almost always: every thread that had the handle has dropped it.
            if Arc::strong_count(&last.0) == 1 {
                last.0.ring();
            } else {
                last.0 = Self::new(last.0.descriptor.clone());
            }
            Some(Arc::clone(&last.0))
        })
        .ok()?
    }

    /// Makes a handle of this thread, which was rung, and which can only park.
    pub(crate) fn without_descriptor() -> Arc<Self> {
        Self::new(None)
    }

    /// Makes a handle of an event loop, which polls [`WakeHandle::descriptor`] from now on.
    pub(crate) fn of_loop() -> io::Result<Arc<Self>> {
        let new = Self::new(Some(Arc::new(WakeDescriptor::open()?)));
        new.take_rung();
        new.wakeup.begin_sleep(SleepKind::Polling);
        Ok(new)
    }

    /// The descriptor to poll. It is negative if there is none.
    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor.as_ref().map_or(-1, |descriptor| descriptor.number())
    }

    /// Makes the descriptor unreadable, after it was polled.
    pub(crate) fn clear(&self) {
        self.descriptor.iter().for_each(|descriptor| descriptor.clear());
    }

    /// Wakes it, unless it is awake or another ring has just woken it.
    pub(crate) fn ring(&self) {
        self.wakeup.ring(|sleep| match sleep {
            SleepKind::Polling => self.descriptor.iter().for_each(|descriptor| descriptor.set()),
            SleepKind::Parked => self.thread.unpark(),
        });
    }

    /// Returns whether it was rung since the last look, and resets that. Rings need no system call until it sleeps.
    pub(crate) fn take_rung(&self) -> bool {
        self.wakeup.take_rung()
    }

    /// Returns whether it was rung since the last look.
    pub(crate) fn is_rung(&self) -> bool {
        self.wakeup.is_rung()
    }

    /// Declares that it polls the descriptor from now on. Returns false if it must look first.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.wakeup.begin_sleep(SleepKind::Polling)
    }

    /// Declares that it does not poll any more.
    pub(crate) fn wake_up(&self) {
        self.wakeup.wake_up();
    }

    /// Declares that it polls from now on although it was rung: the descriptor becomes readable immediately.
    pub(crate) fn look_later(&self) {
        while !self.begin_sleep() {
            self.take_rung();
        }
        self.ring();
    }

    /// Parks this thread until the next ring, for `time` at most.
    pub(crate) fn park(&self, time: Duration) {
        if self.wakeup.begin_sleep(SleepKind::Parked) {
            thread::park_timeout(time);
            self.wakeup.wake_up();
        }
    }
}

impl Wake for WakeHandle {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// One end of a [`WakeDescriptor`].
#[cfg(any(target_os = "linux", target_os = "android"))]
type WakeEnd = std::fs::File;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
type WakeEnd = std::os::unix::net::UnixStream;
/// Never opened.
#[cfg(not(unix))]
type WakeEnd = std::fs::File;

/// A descriptor that any thread can make readable, to wake a thread or an event loop that polls it.
///
/// An eventfd, or a pair of sockets on systems without one. Systems other than Unix have none, and their threads park.
struct WakeDescriptor {
    read: Owned<WakeEnd>,
    /// `None` if one descriptor serves both directions.
    write: Option<Owned<WakeEnd>>,
}

impl WakeDescriptor {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let read = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { read: Owned::new(read.into()), write: None })
    }

    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    fn open() -> io::Result<Self> {
        let (read, write) = WakeEnd::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self { read: Owned::new(read), write: Some(Owned::new(write)) })
    }

    #[cfg(not(unix))]
    fn open() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The descriptor to poll.
    #[cfg(unix)]
    fn number(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&*self.read)
    }

    /// Never called, because none is ever open.
    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "other systems use it")]
    fn number(&self) -> i32 {
        -1
    }

    /// Makes it readable.
    fn set(&self) {
        // If the buffer is full, it is readable already.
        let mut write: &WakeEnd = self.write.as_ref().unwrap_or(&self.read);
        let _ = write.write(&1_u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    fn clear(&self) {
        // The bytes have no meaning: the state is in `Wakeup`.
        let _ = (&*self.read).read(&mut [0; 64]);
    }
}
