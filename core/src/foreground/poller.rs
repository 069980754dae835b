//! Several descriptors as one, which an event loop watches. It is readable while one of them is.
//!
//! It is an epoll inside that of the loop. Connections come and go without a change in the loop, which only needs to watch
//! one descriptor.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Several descriptors, each with a number.
pub(crate) struct Poller(OwnedFd);

/// The maximum number of descriptors that are reported at once.
pub(super) const MAX_READY: usize = 16;

impl Poller {
    /// Creates one without descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes a number and returns a descriptor or -1.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// The descriptor to watch.
    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Adds a descriptor.
    pub(crate) fn add(&self, descriptor: i32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        self.control(libc::EPOLL_CTL_ADD, descriptor, &mut event)
    }

    /// Removes a descriptor. Called before it is closed, because it would be reported forever if a forked child has it too.
    pub(crate) fn remove(&self, descriptor: i32) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // Fails only if it is not there.
        let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, &mut event);
    }

    fn control(
        &self,
        operation: i32,
        descriptor: i32,
        event: &mut libc::epoll_event,
    ) -> io::Result<()> {
        // SAFETY: the poller is open and the event is valid. The system checks the descriptor.
        let done = unsafe { libc::epoll_ctl(self.descriptor(), operation, descriptor, event) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the numbers of the descriptors that are readable.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u64> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_READY];
        let room = i32::try_from(MAX_READY).unwrap_or(1);
        // SAFETY: there is room for this number of events. The call does not wait.
        let found = unsafe { libc::epoll_wait(self.descriptor(), events.as_mut_ptr(), room, 0) };
        let found = usize::try_from(found).unwrap_or_default();
        events.into_iter().take(found).map(|event| event.u64)
    }
}
