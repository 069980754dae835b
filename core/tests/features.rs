//! What a build with fewer features can do, and how it reports what it cannot. `scripts/features` runs it without any.

use redlock::{ErrorKind, Redlock};

#[test]
fn works_without_features() {
    let client = Redlock::builder(["memory://"]).build().unwrap();
    let lease = client.lock("job").acquire_blocking().unwrap();
    assert!(client.lock("job").try_acquire_blocking().unwrap().is_none());
    lease.release_blocking().unwrap();
}

/// No server listens at this address. The error must come before any connection.
#[test]
fn supports_tls_or_names_the_missing_feature() {
    for url in [
        "rediss://127.0.0.1:1",
        "valkeys://127.0.0.1:1",
        "rediss+sentinel://127.0.0.1:1/service",
        "rediss+cluster://127.0.0.1:1",
    ] {
        let made = Redlock::builder([url]).build();
        // A machine without trusted certificates gets a different error.
        let refused = made.err().filter(|error| error.to_string().contains("feature"));
        assert_eq!(refused.is_some(), cfg!(not(feature = "tls")), "{url}: {refused:?}");
        let Some(error) = refused else { continue };
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("`tls`"), "{error}");
    }
}
