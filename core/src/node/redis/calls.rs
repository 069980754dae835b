//! The system's own calls for a socket, each of which says by itself whether it may wait.

#![cfg(any(target_os = "linux", target_os = "android"))]

use std::io;
use std::os::fd::RawFd;

/// Reads what is there: an error of the kind `WouldBlock` where nothing is.
pub(super) fn read(socket: RawFd, into: &mut [u8]) -> io::Result<usize> {
    receive_by(socket, into, libc::MSG_DONTWAIT)
}

/// Waits for something to read, for as long as the socket's own time limit says.
pub(super) fn receive(socket: RawFd, into: &mut [u8]) -> io::Result<usize> {
    receive_by(socket, into, 0)
}

fn receive_by(socket: RawFd, into: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: there is room for so many bytes.
    let came = unsafe { libc::recv(socket, into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(came).map_err(|_| io::Error::last_os_error())
}

/// Writes what there is room for: an error of the kind `WouldBlock` where there is none.
pub(super) fn write(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: there are so many bytes.
    let took = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(took).map_err(|_| io::Error::last_os_error())
}
