//! What wakes an event loop without the GIL: one byte through a pair of Unix sockets, where there are any.
//!
//! Windows has none that its loops could watch: there, as of loops that watch nothing, another thread calls.

#[cfg(unix)]
mod ends {
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// The end that any thread may ring.
    pub(crate) struct Ring(UnixStream);

    /// The loop's end.
    pub(crate) struct Woken(UnixStream);

    /// Both of them.
    pub(crate) fn pair() -> io::Result<Option<(Woken, Ring)>> {
        let (woken, ring) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        Ok(Some((Woken(woken), Ring(ring))))
    }

    impl Ring {
        /// A full pipe has woken the loop already, and a closed one has no loop behind it.
        pub(crate) fn ring(&self) {
            drop((&self.0).write(&[1]));
        }
    }

    impl Woken {
        /// What the loop is to watch.
        pub(crate) fn descriptor(&self) -> i32 {
            self.0.as_raw_fd()
        }

        /// Empties the pipe. The next wake-up has to write to it again.
        pub(crate) fn drain(&self) {
            let _ = (&self.0).read(&mut [0; 16]);
        }
    }
}

#[cfg(not(unix))]
mod ends {
    use std::io;

    /// There is none.
    pub(crate) enum Ring {}

    /// There is none.
    pub(crate) enum Woken {}

    /// None of them.
    pub(crate) fn pair() -> io::Result<Option<(Woken, Ring)>> {
        Ok(None)
    }

    impl Ring {
        /// Never called.
        pub(crate) fn ring(&self) {
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

pub(super) use ends::{Ring, Woken, pair};
