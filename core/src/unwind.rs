//! Declares the types that may be used after a panic.
//!
//! A panic under any lock of the library leaves the guarded data consistent, so poisoned locks are ignored.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::client::Redlock;
use crate::lease::{Lease, LeaseHandle};
use crate::lock::Lock;

impl UnwindSafe for Redlock {}
impl RefUnwindSafe for Redlock {}
impl UnwindSafe for Lock {}
impl RefUnwindSafe for Lock {}
impl UnwindSafe for Lease {}
impl RefUnwindSafe for Lease {}
impl UnwindSafe for LeaseHandle {}
impl RefUnwindSafe for LeaseHandle {}
