//! How many system calls an acquire and its release take on the thread that makes them, for each driver.
//!
//! This test traces a separate process by ptrace, and counts between two marks.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::support::Server;
use crate::support::drivers::{Driver, Kind};

const PAIRS: i64 = 200;
/// The process to trace has the driver and the URL in its environment.
const TRACED: &str = "TRACED_DRIVER";
const URL: &str = "TRACED_URL";
/// A call that nothing else makes.
const MARK: i64 = libc::SYS_getppid;

/// The traced process.
fn pairs(kind: &str) {
    let kinds = [Kind::Thread, Kind::Loop, Kind::Runtime, Kind::Background];
    let kind = kinds.into_iter().find(|known| format!("{known:?}") == kind).unwrap();
    let driver = Driver::of(kind);
    let client = driver.client(std::env::var(URL).unwrap());
    driver.warm(&client);
    let lock = client.lock("counted");
    // SAFETY: it returns a number.
    let mark = || unsafe { libc::syscall(MARK) };
    mark();
    driver.run(async move {
        for _ in 0..PAIRS {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    });
    mark();
}

/// Makes a request of ptrace about a stopped thread.
fn trace(request: libc::c_uint, thread: i32, address: usize, data: usize) -> i64 {
    // SAFETY: the requests below write to `data`, if at all, as many bytes as `address` says.
    unsafe { libc::ptrace(request, thread, address, data) }
}

/// The number of the system call that the stopped thread is about to make.
fn entered(thread: i32) -> Option<i64> {
    // PTRACE_GET_SYSCALL_INFO: the kind of stop, and the number of the call.
    let mut info = [0_u64; 16];
    trace(0x420e, thread, size_of_val(&info), info.as_mut_ptr() as usize);
    (info[0] & 0xff == 1).then(|| info[3].cast_signed())
}

/// The system calls between the marks, on the thread that makes the marks.
fn counted(kind: Kind, url: &str) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "slow::calls::a_pair_takes_few_system_calls", "--nocapture"]);
    child.env(TRACED, format!("{kind:?}")).env(URL, url).stdout(Stdio::null());
    // SAFETY: it is one system call.
    let traced = unsafe {
        child.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        })
    };
    let process = traced.spawn().unwrap().id().cast_signed();
    let (mut marked, mut calls) = (None, 0);
    loop {
        let mut status = 0;
        // SAFETY: the pointer is valid. The threads are this thread's, which traces them.
        let thread =
            unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(thread > 0, "nothing to trace");
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if thread == process {
                assert_eq!(status, 0, "{kind:?}");
                return calls;
            }
            continue;
        }
        let mut signal = 0;
        match libc::WSTOPSIG(status) {
            // A system call.
            0x85 => match entered(thread) {
                Some(MARK) => marked = if marked.is_none() { Some(thread) } else { Some(-1) },
                // The feature `metrics` wakes its own thread with a futex.
                Some(number) if marked == Some(thread) && number != libc::SYS_futex => calls += 1,
                _ => {}
            },
            libc::SIGTRAP if status >> 16 == 0 => {
                let options = libc::PTRACE_O_TRACESYSGOOD
                    | libc::PTRACE_O_TRACECLONE
                    | libc::PTRACE_O_EXITKILL;
                trace(libc::PTRACE_SETOPTIONS, process, 0, options.try_into().unwrap());
            }
            // A new thread.
            libc::SIGTRAP | libc::SIGSTOP => {}
            other => signal = other,
        }
        trace(libc::PTRACE_SYSCALL, thread, 0, usize::try_from(signal).unwrap());
    }
}

// Slow: a busy machine adds calls, such as those of a wait that has taken too long.
#[test]
fn a_pair_takes_few_system_calls() {
    if let Ok(kind) = std::env::var(TRACED) {
        return pairs(&kind);
    }
    let server = Server::start();
    for (kind, most) in [(Kind::Thread, 7.2), (Kind::Loop, 7.3), (Kind::Runtime, 7.5)] {
        let calls = counted(kind, &server.url());
        #[expect(clippy::cast_precision_loss, reason = "they are few")]
        let each = calls as f64 / PAIRS as f64;
        println!("{kind:?}: {each:.2} system calls per pair");
        assert!(each >= 4.0 && each < most, "{kind:?}: {each:.2} system calls per pair");
    }
}
