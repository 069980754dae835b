//! Waits for several descriptors: as one descriptor that an event loop watches, or in one system call.
//!
//! Only Linux has epoll. On other systems there is no [`Poller`], so loops and runtimes use the background thread.

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::thread;
use std::time::Duration;

use smallvec::SmallVec;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use epoll::{Poller, Watched};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use none::{Poller, Watched};

/// The maximum number of descriptors that are reported at once.
pub(super) const MAX_READY: usize = 16;

/// The sleep between two reads if the system refuses to poll.
#[cfg(unix)]
const UNPOLLED: Duration = Duration::from_millis(1);

/// The positions of readable descriptors.
pub(super) type Ready = SmallVec<[usize; 6]>;

/// Waits until one of these descriptors is readable, for at most `time`. An error of a descriptor counts too.
#[cfg(unix)]
pub(super) fn wait(descriptors: &[i32], time: Duration) -> Ready {
    let readable = |fd: &i32| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut polled: SmallVec<[libc::pollfd; 6]> = descriptors.iter().map(readable).collect();
    let count = polled.len() as libc::nfds_t;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let time = libc::timespec {
        // 68 years at most, which fit everywhere.
        tv_sec: i32::try_from(time.as_secs()).unwrap_or(i32::MAX).into(),
        tv_nsec: time.subsec_nanos().cast_signed().into(),
    };
    // Rounded up to milliseconds.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let time = i32::try_from(time.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
    // SAFETY: the number is right, the time is valid, and no mask is given.
    let found = unsafe {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let found = libc::ppoll(polled.as_mut_ptr(), count, &raw const time, std::ptr::null());
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let found = libc::poll(polled.as_mut_ptr(), count, time);
        found
    };
    if found < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        // The process may have fewer descriptors by now than it polls, as in a sandbox. Any of them may be readable.
        thread::sleep(UNPOLLED);
        return (0..descriptors.len()).collect();
    }
    let ready = polled.iter().enumerate().filter(|(_, polled)| polled.revents != 0);
    ready.map(|(at, _)| at).collect()
}

/// Never called, because this system has no wake-up descriptor, and its threads park.
#[cfg(not(unix))]
pub(super) fn wait(_: &[i32], _: Duration) -> Ready {
    Ready::new()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, OwnedFd, RawFd};
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use rustix::event::Timespec;
    use rustix::event::epoll::{self, CreateFlags};
    use smallvec::SmallVec;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::drivers::poller::MAX_READY;
    use crate::runtime::Owned;

    /// Several descriptors as one, each with a number. It is readable while one of them is.
    ///
    /// It is an epoll inside that of the loop. Connections come and go without a change in the loop.
    pub(crate) struct Poller(Owned<OwnedFd>);

    impl AsRawFd for Poller {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_raw_fd()
        }
    }

    impl Poller {
        /// Creates one without descriptors. Fails on systems without epoll.
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(Owned::new(epoll::create(CreateFlags::CLOEXEC)?)))
        }

        /// The descriptor to watch.
        pub(crate) fn descriptor(&self) -> i32 {
            self.as_raw_fd()
        }

        pub(crate) fn add(&self, descriptor: i32, number: u64) -> io::Result<()> {
            self.control(libc::EPOLL_CTL_ADD, descriptor, libc::EPOLLIN as u32, number)
        }

        pub(crate) fn remove(&self, descriptor: i32) {
            // Fails only if it is not there.
            let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0);
        }

        fn control(
            &self,
            operation: i32,
            descriptor: i32,
            events: u32,
            u64: u64,
        ) -> io::Result<()> {
            let mut event = libc::epoll_event { events, u64 };
            // SAFETY: the poller is open and the event is valid. The system checks the descriptor.
            let done = unsafe {
                libc::epoll_ctl(self.descriptor(), operation, descriptor, &raw mut event)
            };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }

        /// Returns the numbers of readable descriptors, without waiting.
        pub(crate) fn ready(&self) -> impl Iterator<Item = u64> + use<> {
            let mut events = [MaybeUninit::uninit(); MAX_READY];
            let found = epoll::wait(&*self.0, &mut events, Some(&Timespec::default()));
            let numbers = |event: &epoll::Event| event.data.u64();
            let found = found.map(|(found, _)| found.iter().map(numbers).collect());
            let found: SmallVec<[u64; MAX_READY]> = found.unwrap_or_default();
            found.into_iter()
        }
    }

    /// A poller that a tokio runtime watches.
    pub(crate) struct Watched(AsyncFd<Arc<Poller>>);

    impl Watched {
        /// Has the current runtime watch a poller. Panics if the runtime has no I/O driver.
        pub(crate) fn new(poller: Arc<Poller>) -> io::Result<Self> {
            // SAFETY: the registration owns the poller, so the descriptor stays open.
            let watched = unsafe { AsyncFd::register_with_interest(poller, Interest::READABLE) };
            Ok(Self(watched?))
        }

        /// Ready once for each time that the poller became readable. Returns an error if the runtime ends.
        pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            // Cleared before the caller reads, so that later bytes notify again.
            self.0.poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready())
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod none {
    use std::convert::Infallible;
    use std::io;
    use std::iter::Empty;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    /// Does not exist on this system.
    pub(crate) struct Poller(Infallible);

    impl Poller {
        pub(crate) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn descriptor(&self) -> i32 {
            match self.0 {}
        }

        pub(crate) fn add(&self, _: i32, _: u64) -> io::Result<()> {
            match self.0 {}
        }

        #[cfg(unix)]
        pub(crate) fn remove(&self, _: i32) {
            match self.0 {}
        }

        pub(crate) fn ready(&self) -> Empty<u64> {
            match self.0 {}
        }
    }

    /// Does not exist on this system.
    pub(crate) struct Watched(Infallible);

    impl Watched {
        pub(crate) fn new(poller: Arc<Poller>) -> io::Result<Self> {
            match poller.0 {}
        }

        pub(crate) fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.0 {}
        }
    }
}
