//! A lane, as whoever waits sees it.

use std::sync::atomic::Ordering;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::{Arc, PoisonError};

use super::{BACKGROUND, FREE, Lane, NOWHERE, THREAD, WHO, next_role};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::foreground::Poller;
use crate::foreground::{Seat, Way};
use crate::runtime::exit::Flush;
use crate::runtime::fork_generation;

/// So often nobody tries for the seat after two have wanted it: they will again. Twice as often each time, up to the most.
const CROWD: (u32, u32) = (16, 4096);
/// After so many that had it for themselves it begins anew.
const ALONE: u32 = 64;

impl Way for Lane {
    fn turn(&self, mut read: bool) -> bool {
        if self.generation != fork_generation() {
            return false;
        }
        let (mut done, mut said) = (false, false);
        loop {
            let Some(mut session) = self.try_lock() else {
                if said {
                    return done;
                }
                // Whoever has it looks again before it goes; it may have looked just now.
                self.again.store(true, Ordering::SeqCst);
                said = true;
                continue;
            };
            if self.again.load(Ordering::SeqCst) {
                self.again.store(false, Ordering::SeqCst);
            }
            done = true;
            if let Some(session) = &mut *session {
                self.run(session, std::mem::take(&mut read));
            }
            drop(session);
            if !self.again.load(Ordering::SeqCst) {
                break;
            }
        }
        if self.missed.swap(false, Ordering::SeqCst) {
            self.call();
        }
        done
    }

    fn help(&self) {
        self.help.store(true, Ordering::SeqCst);
        self.call();
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn look_after(&self) {
        // Its rhythm takes what was asked, and ends where nobody asks.
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.call();
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn has_more(&self) -> bool {
        // Asked once: of a connection that has ended nothing is read any more.
        self.more.swap(false, Ordering::SeqCst)
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    fn sit(&self) -> Option<Seat> {
        let role = self.role.load(Ordering::SeqCst);
        if role & WHO == BACKGROUND || self.generation != fork_generation() {
            return None;
        }
        let less = |crowd: u32| crowd.checked_sub(1);
        if self.crowd.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return None;
        }
        let next = next_role(role, THREAD);
        let taken = role & WHO != FREE
            || self.role.compare_exchange(role, next, Ordering::SeqCst, Ordering::SeqCst).is_err();
        let (least, most) = CROWD;
        if taken {
            let crowd = (self.crowds.load(Ordering::Relaxed) * 2).clamp(least, most);
            self.crowds.store(crowd, Ordering::Relaxed);
            self.crowd.store(crowd, Ordering::Relaxed);
            self.alone.store(0, Ordering::Relaxed);
            return None;
        }
        if self.alone.fetch_add(1, Ordering::Relaxed) == ALONE {
            self.crowds.store(0, Ordering::Relaxed);
        }
        Some(Seat(next))
    }

    fn descriptor(&self, seat: Seat) -> Option<i32> {
        let descriptor = self.descriptor.load(Ordering::SeqCst);
        let ours = self.role.load(Ordering::SeqCst) == seat.0;
        (ours && descriptor != NOWHERE).then_some(descriptor)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn receive(&self, seat: Seat) -> bool {
        self.receive_at(seat)
    }

    fn leave(&self, Seat(seat): Seat) {
        if self.generation != fork_generation() {
            return;
        }
        self.give_up(seat);
        // What is still to come, somebody else waits for, or nobody: it is read all the same.
        if self.is_open() {
            self.help();
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn watch(&self, seat: Seat, poller: &Arc<Poller>, number: u64) -> bool {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a session that ends meanwhile takes it off again.
        let descriptor = self.descriptor(seat);
        let added = descriptor.is_some_and(|descriptor| poller.add(descriptor, number).is_ok());
        if added {
            *watcher = Some(Arc::clone(poller));
        }
        added
    }
}

impl Flush for Lane {
    fn flush(&self) {
        self.help();
    }
}

impl Lane {
    /// Whoever has this seat leaves it; of a session that is over it is another one's by now.
    fn give_up(&self, seat: u64) {
        self.unwatched_by_loop(|| {
            let next = next_role(seat, FREE);
            let left = self.role.compare_exchange(seat, next, Ordering::SeqCst, Ordering::SeqCst);
            left.is_ok().then(|| self.descriptor.load(Ordering::SeqCst))
        });
    }

    /// A change after which no loop watches this descriptor any more, if there is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn unwatched_by_loop(&self, change: impl FnOnce() -> Option<i32>) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(descriptor) = change()
            && let Some(poller) = watcher.take()
        {
            poller.remove(descriptor);
        }
    }

    /// None ever did.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[expect(clippy::unused_self, reason = "other systems have something to do")]
    pub(super) fn unwatched_by_loop(&self, change: impl FnOnce() -> Option<i32>) {
        change();
    }
}
