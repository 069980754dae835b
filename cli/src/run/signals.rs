//! The signals of this process, in the order in which they arrive.
//!
//! A handler writes the number of its signal into a socket, which is all that a handler may do. The tokio feature would
//! do the same, but its threads and its list of signals stay until the process ends.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as Sender;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, c_int};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// The signals that are passed on to the command, and that of its end.
const CAUGHT: [c_int; 9] =
    [SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2];

/// Where the handler writes to. -1 if there is no reader.
static SENDER: AtomicI32 = AtomicI32::new(-1);

extern "C" fn write_signal(signal: c_int) {
    let byte = u8::try_from(signal).unwrap_or_default();
    // SAFETY: write(2) may be called in a handler. The interrupted code must not see another errno.
    unsafe {
        let errno = errno();
        let before = *errno;
        libc::write(SENDER.load(Ordering::Relaxed), ptr::from_ref(&byte).cast(), 1);
        *errno = before;
    }
}

/// The address of this thread's errno.
fn errno() -> *mut c_int {
    #[cfg(target_os = "linux")]
    let address = libc::__errno_location;
    #[cfg(target_os = "android")]
    let address = libc::__errno;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let address = libc::__error;
    // SAFETY: it has no condition.
    unsafe { address() }
}

/// The caught signals. Dropping it restores what was done with them before.
pub(super) struct Signals {
    receiver: UnixStream,
    /// Open for as long as a handler may write.
    _sender: Sender,
    before: Vec<(c_int, libc::sigaction)>,
}

impl Signals {
    /// Catches the signals from now on. An ignored signal stays ignored, as after nohup(1).
    pub(super) fn catch() -> io::Result<Self> {
        let (sender, receiver) = Sender::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        SENDER.store(sender.as_raw_fd(), Ordering::Relaxed);
        let receiver = UnixStream::from_std(receiver)?;
        let mut signals = Self { receiver, _sender: sender, before: Vec::new() };
        unblock();
        for signal in CAUGHT {
            let before = action(signal, None)?;
            // Without a handler for it, the end of a child could not be awaited.
            if before.sa_sigaction != libc::SIG_IGN || signal == SIGCHLD {
                action(signal, Some(write_signal as *const () as usize))?;
                signals.before.push((signal, before));
            }
        }
        Ok(signals)
    }

    /// Waits for the next signal. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> c_int {
        let mut byte = [0];
        match self.receiver.read(&mut byte).await {
            Ok(1) => byte[0].into(),
            // The sender is open, so this cannot happen.
            _ => std::future::pending().await,
        }
    }
}

impl Signals {
    /// Waits for the next signal that ends a wait. A stop takes effect, and the wait goes on afterwards.
    pub(super) async fn next_end(&mut self) -> c_int {
        loop {
            match self.next().await {
                SIGCHLD | SIGCONT => {}
                SIGTSTP => suspend(SIGTSTP, false),
                signal => return signal,
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: the action is one that the system returned for this signal.
            unsafe { libc::sigaction(*signal, before, ptr::null_mut()) };
        }
        SENDER.store(-1, Ordering::Relaxed);
    }
}

/// Lets the signals arrive, also if the caller of this process has blocked them.
fn unblock() {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the set is initialized by the first call, and no pointer outlives it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in CAUGHT {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
    }
}

/// Returns what is done with a signal, and changes it.
fn action(signal: c_int, handler: Option<usize>) -> io::Result<libc::sigaction> {
    // SAFETY: an action of zeros is valid, and both pointers are valid or null.
    let (result, before) = unsafe {
        let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let mut before: libc::sigaction = MaybeUninit::zeroed().assume_init();
        // A system call of another thread goes on.
        new.sa_flags = libc::SA_RESTART;
        new.sa_sigaction = handler.unwrap_or(libc::SIG_DFL);
        let new = handler.map_or(ptr::null(), |_| ptr::from_ref(&new));
        (libc::sigaction(signal, new, &raw mut before), before)
    };
    if result == 0 { Ok(before) } else { Err(io::Error::last_os_error()) }
}

/// Suspends this process as the signal does by default, with the other processes of its group if `group`. Returns when
/// it continues, or immediately if no shell could continue it.
pub(super) fn suspend(signal: c_int, group: bool) {
    let before = action(signal, Some(libc::SIG_DFL));
    // SAFETY: a system call without memory.
    unsafe { libc::kill(if group { 0 } else { libc::getpid() }, signal) };
    if let Ok(before) = before {
        // SAFETY: the action is one that the system returned for this signal.
        unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
    }
}
