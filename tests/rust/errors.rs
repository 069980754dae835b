//! The cause of an error, the origin of its text, and what remains usable after a panic.

use std::error::Error as _;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::time::Duration;

use redlock::{ErrorKind, Lease, LeaseHandle, Lock, NodeState, Redlock};

use crate::support::{Silent, builder, free_port, millis};

#[tokio::test]
async fn error_source_is_the_io_error() {
    let url = format!("redis://:s3cret@127.0.0.1:{}", free_port());
    let redlock = builder([url]).build().unwrap();
    // The second time, the client already knows that it has no connection.
    for _ in 0..2 {
        let lock = redlock.lock("job").wait(Duration::ZERO);
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.nodes()[0].state),
            (ErrorKind::Unavailable, NodeState::Fault)
        );
        let node = error.source().expect("the node's error");
        assert!(node.to_string().starts_with("redis://127.0.0.1:"), "{node}");
        let system = node.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(system.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused), "{node}");
        assert!(!format!("{error:?} {node} {system:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn error_source_ends_at_the_node_without_io_error() {
    let node = Silent::listen();
    let lock = builder([node.url()]).build().unwrap().lock("job");
    let lock = lock.node_timeout(millis(100)).wait(millis(150));
    let error = lock.acquire().await.unwrap_err();
    let source = error.source().expect("the node's error");
    assert!(source.to_string().contains("no reply within 0.100 s"), "{source}");
    assert!(source.source().is_none());
    let memory = Redlock::builder(["memory://errors"]).build().unwrap().lock("job");
    let _held = memory.acquire().await.unwrap();
    assert!(memory.wait(Duration::ZERO).acquire().await.unwrap_err().source().is_none());
}

#[tokio::test]
async fn short_wait_blames_no_node() {
    let nodes = [Silent::listen(), Silent::listen(), Silent::listen()];
    let urls: Vec<_> = nodes.iter().map(Silent::url).collect();
    for (urls, who) in [(&urls[..1], "a reply of the node"), (&urls, "the replies of a quorum")] {
        let lock = builder(urls).build().unwrap().lock("job");
        let error = lock.acquire_within(millis(1)).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(text.contains(&format!("wait was too short to receive {who}")), "{text}");
        assert!(!text.contains("not available") && !text.contains("no quorum"), "{text}");
        assert!(text.contains("no reply within 0.001 s"), "{text}");
        for node in error.nodes() {
            assert_eq!(node.state, NodeState::Pending, "{text}");
        }
        // A node that had its whole time failed.
        let lock = lock.node_timeout(millis(50)).wait(millis(80));
        let error = lock.acquire().await.unwrap_err();
        assert!(!error.to_string().contains("too short"), "{error}");
        assert_eq!(error.nodes()[0].state, NodeState::Fault, "{error}");
    }
}

/// `main() -> redlock::Result<()>` and `unwrap` print it to users.
#[tokio::test]
async fn debug_output_is_the_code_and_the_text() {
    let down = builder([format!("redis://:s3cret@127.0.0.1:{}", free_port())]).build().unwrap();
    let unavailable = down.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    let source = unavailable.source().expect("the node's error").to_string();
    assert!(unavailable.to_string().contains(&source), "{source} is in {unavailable}");
    let memory = Redlock::builder(["memory://errors"]).build().unwrap();
    let lock = memory.lock("debug").wait(Duration::ZERO);
    let lease = lock.acquire().await.unwrap();
    let timeout = lock.acquire().await.unwrap_err();
    memory.force_release("debug").await.unwrap();
    let lost = lease.lost().await;
    for error in [unavailable, timeout, lost] {
        assert_eq!(format!("{error:?}"), format!("{}: {error}", error.code()));
        assert_eq!(format!("{error:#?}"), format!("{error:?}"), "one line");
    }
}

#[tokio::test]
async fn debug_output_of_handles_lists_what_identifies_them() {
    let builder = Redlock::builder(["redis://user:s3cret@127.0.0.1:1", "s3cret"]);
    let nodes = r#"nodes: ["redis://127.0.0.1:1"]"#;
    assert_eq!(format!("{builder:?}"), format!("Builder {{ {nodes}, .. }}"));
    let down = Redlock::builder(["redis://user:s3cret@127.0.0.1:1"]).build().unwrap();
    assert_eq!(format!("{down:?}"), format!("Redlock {{ {nodes}, .. }}"));
    let memory = Redlock::builder(["memory://errors"]).build().unwrap();
    let lock = memory.lock("shown");
    assert_eq!(format!("{lock:?}"), r#"Lock { key: "lock:shown", .. }"#);
    let lease = lock.acquire().await.unwrap();
    let shown = r#"Lease { key: "lock:shown", held: true, .. }"#;
    assert_eq!([format!("{lease:?}"), format!("{:?}", lease.handle())], [shown, shown]);
}

#[tokio::test]
async fn durations_in_errors_have_a_unit() {
    let redlock = Redlock::builder(["memory://errors"]).build().unwrap();
    let error = redlock.lock("unit").ttl(millis(10)).acquire().await.unwrap_err().to_string();
    assert!(error.ends_with("ttl must be at least 0.1 s (got 0.01 s)"), "{error}");
    let lease = redlock.lock("unit").acquire().await.unwrap();
    let error = lease.extend(millis(10)).await.unwrap_err().to_string();
    assert!(!error.contains("in seconds"), "{error}");
}

#[tokio::test]
async fn client_and_lock_work_after_a_panic() {
    fn usable<T: UnwindSafe + RefUnwindSafe + Send + Sync>() {}
    usable::<Redlock>();
    usable::<Lock>();
    usable::<redlock::RwLock>();
    usable::<redlock::Once>();
    usable::<redlock::Leader>();
    usable::<Lease>();
    usable::<LeaseHandle>();
    usable::<redlock::Error>();
    let redlock = Redlock::builder(["memory://unwound"]).build().unwrap();
    let lock = redlock.lock("job");
    let panicked = catch_unwind(|| {
        let _lease = lock.acquire_blocking().unwrap();
        std::panic::resume_unwind(Box::new("a panic of the body"));
    });
    assert!(panicked.is_err());
    assert!(lock.try_acquire().await.unwrap().is_some(), "released on the way out");
}
