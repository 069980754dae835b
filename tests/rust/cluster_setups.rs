//! All documented cluster setups: several clusters as a quorum, required replicas, TLS, and changing credentials.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redlock::{Credentials, ErrorKind, Redlock};

use crate::support::{Certificates, locks, trusting};
use crate::support::{Cluster, alone, free_port, millis};

#[tokio::test]
async fn connects_to_a_cluster_over_tls() {
    let certificates = Certificates::new();
    let port = free_port();
    let options = certificates.options("server", "no", port);
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    // Without it, Redis 7.0 reports the plain port to clients that use TLS.
    options.extend(["--tls-cluster", "yes"]);
    let _server = alone(&options);
    let url = format!("rediss+cluster://127.0.0.1:{port}");
    locks(url.clone(), trusting(&certificates.path("ca.crt"))).await.unwrap();
    let error = locks(url, trusting(&certificates.path("other-ca.crt"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn logs_in_to_every_cluster_server_with_the_callback() {
    let cluster = Cluster::start(3, false);
    for master in &cluster.masters {
        assert_eq!(master.ask("ACL SETUSER app on >first ~* &* +@all"), "+OK");
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.masters[0].port);
    let client = Redlock::builder([url])
        .credentials(move || {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, std::io::Error>(Credentials::new("first").user("app")) }
        })
        .build()
        .unwrap();
    let names: Vec<String> = (0..12).map(|at| format!("job-{at}")).collect();
    let mut used = [false; 3];
    for name in &names {
        let lease = client.lock(name.as_str()).ttl(millis(30_000)).acquire().await.unwrap();
        used[cluster.owner_of(&lease.key())] = true;
        lease.release().await.unwrap();
    }
    assert_eq!(used, [true; 3], "names in every server's slots");
    for master in &cluster.masters {
        assert!(master.text("CLIENT LIST").contains(" user=app "));
    }
    assert!(asked.load(Ordering::SeqCst) >= 3);
    // An outdated password is an error with a reason, and is never shown.
    for master in &cluster.masters {
        master.ask("ACL SETUSER app resetpass >second");
        master.ask("CLIENT KILL USER app");
    }
    let text = loop {
        let error = client.lock("job").wait(millis(500)).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let text = format!("{error} {error:?}");
        // A busy client may not have noticed the closed connections in time to log in again.
        if !text.contains("the server closed the connection") {
            break text;
        }
    };
    assert!(text.contains("WRONGPASS") && !text.contains("first"), "{text}");
}
