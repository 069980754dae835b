//! The descriptors of the background thread, which the program may close: `os.closerange` and `closefrom` close those
//! of the whole process.
//!
//! tokio cannot continue without them. It panics, or uses those of another part of the program that has got the same
//! numbers. The thread therefore looks at one of them before each wait, which takes one cheap system call.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Weak};

use crate::runtime::{PerProcess, fork_generation, lock};

/// How often the program has closed the descriptors of a background thread.
static LOST_DESCRIPTORS: AtomicU32 = AtomicU32::new(0);

/// A number that changes in a forked child, and when the program has closed the descriptors of the background thread. A
/// descriptor of another number belongs to the parent, or may belong to another part of the program.
pub fn descriptor_generation() -> u32 {
    fork_generation().wrapping_add(LOST_DESCRIPTORS.load(Ordering::Relaxed))
}

/// What must learn that the program has closed the descriptors.
pub trait Dependent: Send + Sync {
    /// Called when a background thread has ended. The next use starts another one.
    fn thread_ended(&self);

    /// Called after [`Dependent::thread_ended`] of all dependents.
    fn all_notified(&self) {}
}

static DEPENDENTS: PerProcess<Mutex<Vec<Weak<dyn Dependent>>>> = PerProcess::new();

/// Notifies this dependent when a background thread ends.
pub fn depend(dependent: Weak<dyn Dependent>) {
    let dependents = DEPENDENTS.get_or_make(Mutex::default);
    let mut dependents = lock(&dependents);
    dependents.retain(|known| known.strong_count() > 0);
    dependents.push(dependent);
}

/// Whether the descriptors of a background thread are open.
pub(super) struct Descriptors {
    sample: sample::Sample,
    are_lost: AtomicBool,
}

impl Descriptors {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { sample: sample::Sample::open()?, are_lost: AtomicBool::new(false) })
    }

    pub(super) fn are_lost(&self) -> bool {
        self.are_lost.load(Ordering::Acquire)
    }

    /// Looks at the sample. Returns whether the descriptors are lost.
    pub(super) fn check(&self) -> bool {
        if !self.are_lost() && !self.sample.is_open() {
            self.lose();
        }
        self.are_lost()
    }

    pub(super) fn lose(&self) {
        if !self.are_lost.swap(true, Ordering::AcqRel) {
            LOST_DESCRIPTORS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Notifies all dependents.
pub(super) fn notify() {
    let Some(dependents) = DEPENDENTS.get() else { return };
    let known: Vec<_> = lock(&dependents).iter().filter_map(Weak::upgrade).collect();
    known.iter().for_each(|dependent| dependent.thread_ended());
    known.iter().for_each(|dependent| dependent.all_notified());
}

#[cfg(unix)]
mod sample {
    use std::fs::File;
    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;

    /// A descriptor that differs from any later one with its number. Never closed here, because the number may have
    /// another owner by then.
    pub(super) struct Sample {
        file: ManuallyDrop<File>,
        identity: (u64, u64),
    }

    impl Sample {
        pub(super) fn open() -> io::Result<Self> {
            // A pipe has a separate inode, unlike the descriptors of tokio.
            let (read, _) = io::pipe()?;
            let file = ManuallyDrop::new(File::from(OwnedFd::from(read)));
            let identity = Self::identity(&file)?;
            Ok(Self { file, identity })
        }

        pub(super) fn is_open(&self) -> bool {
            Self::identity(&self.file).is_ok_and(|identity| identity == self.identity)
        }

        fn identity(file: &File) -> io::Result<(u64, u64)> {
            file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
        }
    }
}

#[cfg(not(unix))]
mod sample {
    use std::io;

    /// Other systems have no such calls.
    pub(super) struct Sample;

    impl Sample {
        #[expect(clippy::unnecessary_wraps, reason = "other systems open a descriptor")]
        pub(super) fn open() -> io::Result<Self> {
            Ok(Self)
        }

        #[expect(clippy::unused_self, reason = "other systems look at it")]
        pub(super) fn is_open(&self) -> bool {
            true
        }
    }
}
