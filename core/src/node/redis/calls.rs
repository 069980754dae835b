//! Wraps the system calls of sockets. Each call specifies whether it may block.

#![cfg(any(target_os = "linux", target_os = "android"))]

use std::io;
use std::os::fd::RawFd;

/// Reads the available bytes. Returns `WouldBlock` if there are none.
pub(super) fn read(socket: RawFd, into: &mut [u8]) -> io::Result<usize> {
    receive_by(socket, into, libc::MSG_DONTWAIT)
}

/// Waits for bytes to read, up to the socket's read timeout.
pub(super) fn receive(socket: RawFd, into: &mut [u8]) -> io::Result<usize> {
    receive_by(socket, into, 0)
}

fn receive_by(socket: RawFd, into: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the buffer has room for this number of bytes.
    let came = unsafe { libc::recv(socket, into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(came).map_err(|_| io::Error::last_os_error())
}

/// Writes as many bytes as possible. Returns `WouldBlock` if that is none.
pub(super) fn write(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer contains this number of bytes.
    let took = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(took).map_err(|_| io::Error::last_os_error())
}
