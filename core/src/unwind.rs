//! What may be used again after a panic.
//!
//! A panic under any lock in here leaves what the lock guards whole, so that none of them minds one that was poisoned.

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
