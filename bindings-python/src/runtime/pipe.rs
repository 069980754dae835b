//! Wakes an event loop without the GIL, by one byte through a pair of Unix sockets.
//!
//! On Windows, and for loops that cannot watch a descriptor, another thread wakes the loop.

#[cfg(unix)]
mod ends {
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use redlock::ffi::Owned;

    /// The sending end. Any thread may use it.
    pub(crate) struct WakePipe(Owned<UnixStream>);

    /// The receiving end of the loop.
    pub(crate) struct Woken(Owned<UnixStream>);

    /// Creates both ends.
    pub(crate) fn pair() -> io::Result<Option<(Woken, WakePipe)>> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        Ok(Some((Woken(Owned::new(woken)), WakePipe(Owned::new(wake)))))
    }

    impl WakePipe {
        /// Wakes the loop. Errors are ignored: a full pipe has already woken the loop, and a closed one has no loop.
        pub(crate) fn wake(&self) {
            drop((&*self.0).write(&[1]));
        }
    }

    impl Woken {
        /// The descriptor that the loop must watch.
        pub(crate) fn descriptor(&self) -> i32 {
            self.0.as_raw_fd()
        }

        /// Empties the pipe. The next wake-up has to write to it again.
        pub(crate) fn drain(&self) {
            let _ = (&*self.0).read(&mut [0; 16]);
        }
    }
}

#[cfg(not(unix))]
mod ends {
    use std::io;

    /// Does not exist on this system.
    pub(crate) enum WakePipe {}

    /// Does not exist on this system.
    pub(crate) enum Woken {}

    /// Returns `None`, because this system has no such pipe.
    pub(crate) fn pair() -> io::Result<Option<(Woken, WakePipe)>> {
        Ok(None)
    }

    impl WakePipe {
        /// Never called.
        pub(crate) fn wake(&self) {
            match *self {}
        }
    }

    impl Woken {
        /// Never called.
        pub(crate) fn descriptor(&self) -> i32 {
            match *self {}
        }

        /// Never called.
        pub(crate) fn drain(&self) {
            match *self {}
        }
    }
}

pub(super) use ends::{WakePipe, Woken, pair};
