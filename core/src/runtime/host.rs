//! Returns the name of this host.

/// The size of the buffer for the name, above the limit of every system.
#[cfg(unix)]
const MAX_HOST_NAME: usize = 256;

/// Returns the name of this host, or an empty text if the system reports none.
#[cfg(unix)]
pub(crate) fn host_name() -> String {
    let mut name = [0_u8; MAX_HOST_NAME];
    // SAFETY: the buffer has the stated length.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    if failed { String::new() } else { String::from_utf8_lossy(&name[..length]).into_owned() }
}

#[cfg(not(unix))]
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
