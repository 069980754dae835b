//! Many descriptors as one, which an event loop watches: whatever has something to read makes it readable.
//!
//! An epoll within the loop's own. A connection comes and goes without the loop's being told, and the loop needs to be able
//! to do no more than to watch one descriptor.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Several descriptors, by a number each.
pub(crate) struct Poller(OwnedFd);

/// So many are told of at once; the others at the next look.
pub(super) const MOST: usize = 16;

impl Poller {
    /// None yet.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: it takes a number and answers a descriptor or -1.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is open, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// What a loop is to watch.
    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// From now on this one is waited for, too.
    pub(crate) fn add(&self, descriptor: i32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        self.control(libc::EPOLL_CTL_ADD, descriptor, &mut event)
    }

    /// It is not any more. Said before it is closed: a forked child may have it, too, and it would be told of for ever.
    pub(crate) fn remove(&self, descriptor: i32) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // One that is not there is gone.
        let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, &mut event);
    }

    fn control(&self, what: i32, of: i32, event: &mut libc::epoll_event) -> io::Result<()> {
        // SAFETY: the poller is open and the event valid; of a wrong descriptor the system says so.
        let done = unsafe { libc::epoll_ctl(self.descriptor(), what, of, event) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The numbers of those that have something to read now.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u64> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let room = i32::try_from(MOST).unwrap_or(1);
        // SAFETY: there is room for so many; it does not wait.
        let found = unsafe { libc::epoll_wait(self.descriptor(), events.as_mut_ptr(), room, 0) };
        let found = usize::try_from(found).unwrap_or_default();
        events.into_iter().take(found).map(|event| event.u64)
    }
}
