//! What wakes a thread that sleeps on descriptors: one more of them, its own.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Duration;

use crate::per_process::{Made, PerProcess, fork_generation};

/// How many threads keep their descriptor between two waits. Any other thread opens one for each wait: a process with many
/// threads must not run out of descriptors because each of them has waited once.
const MAX_KEPT: usize = 64;

/// How many do.
static KEPT: PerProcess<AtomicUsize> = PerProcess::new();

/// One thread's bell. It outlives the thread for as long as somebody may ring.
pub(super) struct Bell {
    hears: File,
    /// `None`: one descriptor is both.
    rings: Option<File>,
    /// A child's rings would wake its parent, and its look take the parent's away.
    generation: u32,
}

thread_local! {
    /// This thread's last one, if it may keep one.
    static LAST: RefCell<Option<(Arc<Ringer>, Slot)>> = const { RefCell::new(None) };
}

/// The right of one thread to keep its descriptor between two waits.
struct Slot(Arc<Made<AtomicUsize>>);

impl Slot {
    /// `None`: as many threads as may already do.
    fn take() -> Option<Self> {
        let kept = KEPT.get_or_make(AtomicUsize::default);
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

impl Bell {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn make() -> io::Result<Self> {
        // SAFETY: it takes two numbers and answers a descriptor or -1.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is open, and nobody else has it.
        let hears = unsafe { File::from_raw_fd(descriptor) };
        Ok(Self { hears, rings: None, generation: fork_generation() })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn make() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: there is room for both ends.
        if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for end in ends {
            // SAFETY: both are open; each call takes numbers alone.
            unsafe {
                libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
                libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
            }
        }
        // SAFETY: they are open, and nobody else has them.
        let [hears, rings] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        Ok(Self { hears, rings: Some(rings), generation: fork_generation() })
    }

    /// What to sleep on.
    pub(super) fn descriptor(&self) -> i32 {
        self.hears.as_raw_fd()
    }

    /// It was heard.
    pub(super) fn hush(&self) {
        // Whatever is read: that it rang is known.
        let _ = (&self.hears).read(&mut [0; 64]);
    }

    fn ring(&self) {
        // A full one rings already.
        let mut rings = self.rings.as_ref().unwrap_or(&self.hears);
        let _ = rings.write(&1_u64.to_ne_bytes());
    }
}

/// The thread is awake and has nothing to do.
const AWAKE: u8 = 0;
/// It sleeps on descriptors, and the bell wakes it.
const ASLEEP: u8 = 1;
/// It sleeps on nothing else, which costs less.
const PARKED: u8 = 2;
/// It is to look.
const RUNG: u8 = 3;

/// Wakes the thread of one wait.
pub(super) struct Ringer {
    bell: Arc<Bell>,
    thread: Thread,
    state: AtomicU8,
}

impl Ringer {
    /// One of this thread that nobody else has, which begins with a look; `None`: the thread ends, or there is no descriptor for
    /// its bell.
    pub(super) fn mine() -> Option<Arc<Self>> {
        LAST.try_with(|last| {
            let mut last = last.try_borrow_mut().ok()?;
            // A child leaves its parent's alone.
            if last.as_ref().is_some_and(|(last, _)| last.bell.generation != fork_generation()) {
                std::mem::forget(last.take());
            }
            // Nearly always: who was to wake this thread has done so, or does not know it any more.
            if let Some((known, _)) = &*last
                && Arc::strong_count(known) == 1
            {
                known.state.store(RUNG, Ordering::SeqCst);
                return Some(Arc::clone(known));
            }
            let (bell, slot) = match last.take() {
                Some((known, slot)) => (Arc::clone(&known.bell), Some(slot)),
                None => (Arc::new(Bell::make().ok()?), Slot::take()),
            };
            let new =
                Arc::new(Self { bell, thread: thread::current(), state: AtomicU8::new(RUNG) });
            *last = slot.map(|slot| (Arc::clone(&new), slot));
            Some(new)
        })
        .ok()?
    }

    /// The bell that it rings.
    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Whether it was rung since the last look.
    pub(super) fn was_rung(&self) -> bool {
        self.state.swap(AWAKE, Ordering::SeqCst) == RUNG
    }

    /// The same, and it stays so.
    pub(super) fn is_rung(&self) -> bool {
        self.state.load(Ordering::SeqCst) == RUNG
    }

    /// Whether the thread may sleep: from now on it is woken by the bell.
    pub(super) fn sleeps(&self) -> bool {
        self.changes(AWAKE, ASLEEP)
    }

    /// It sleeps no more.
    pub(super) fn wakes(&self) {
        self.changes(ASLEEP, AWAKE);
    }

    /// Sleeps on nothing but a ring, for so long at most.
    pub(super) fn park(&self, time: Duration) {
        if self.changes(AWAKE, PARKED) {
            thread::park_timeout(time);
            self.changes(PARKED, AWAKE);
        }
    }

    fn changes(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.swap(RUNG, Ordering::SeqCst) {
            ASLEEP => self.bell.ring(),
            PARKED => self.thread.unpark(),
            _ => {}
        }
    }
}
