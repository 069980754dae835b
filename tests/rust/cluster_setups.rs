//! Clusters in each set-up that the documents name: several as a quorum, with replicas that must have what is granted,
//! over TLS, and with logins that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redlock::{Credentials, ErrorKind, Redlock};

use crate::support::{Cluster, Server, alone, free_port, millis, wait};
use crate::tls::{Papers, locks, trusting};

fn url(server: &Server) -> String {
    server.url().replacen("redis", "redis+cluster", 1)
}

#[tokio::test]
async fn several_clusters_are_a_quorum() {
    let mut clusters: Vec<Server> = (0..3).map(|_| alone(&[])).collect();
    let client = || {
        let urls: Vec<String> = clusters.iter().map(url).collect();
        Redlock::builder(urls).restart_guard(Duration::ZERO).build().unwrap()
    };
    let (one, two) = (client(), client());
    let lease = one.lock("job").ttl(millis(3000)).fencing(true).acquire().await.unwrap();
    let token = lease.fencing_token().unwrap();
    clusters[0].kill();
    tokio::time::sleep(millis(1500)).await;
    lease.extend(millis(5000)).await.unwrap();
    assert!(two.lock("job").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(two.lock("job").fencing(true).wait(millis(5000)).acquire());
    tokio::time::sleep(millis(100)).await;
    lease.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.release().await.unwrap();
    clusters[1].kill();
    let error = one.lock("job").wait(millis(500)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // Nothing is left behind where a vote was given.
    wait(|| clusters[2].ask("EXISTS lock:job") == ":0");
}

#[tokio::test]
async fn what_a_cluster_s_replica_does_not_have_is_no_grant() {
    let cluster = Cluster::start(1, true);
    let client = Redlock::builder([cluster.url()]).min_replicas(1).build().unwrap();
    let lease = client.lock("job").ttl(millis(1500)).acquire().await.unwrap();
    assert_eq!(cluster.replicas[0].ask("DBSIZE"), ":1");
    cluster.replicas[0].signal(libc::SIGSTOP);
    let cut = Instant::now();
    let error = tokio::time::timeout(millis(6000), lease.lost()).await.expect("told in time");
    assert_eq!(error.reason(), Some("expired"), "{error}");
    assert!(cut.elapsed() < millis(1500), "{:?}", cut.elapsed());
    let lock = client.lock("other").node_timeout(millis(500)).wait(Duration::ZERO);
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.nodes()[0].error.clone().unwrap().contains("reached 0 of 1 replicas"), "{error}");
    wait(|| cluster.masters[0].ask("EXISTS lock:other") == ":0");
    cluster.replicas[0].signal(libc::SIGCONT);
    let back = client.lock("other").wait(millis(10_000)).acquire().await.unwrap();
    back.release().await.unwrap();
}

#[tokio::test]
async fn a_cluster_over_tls() {
    let papers = Papers::new();
    let port = free_port();
    let options = papers.options("server", "no", port);
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    // Without it Redis 7.0 names the plain port to clients who came by TLS.
    options.extend(["--tls-cluster", "yes"]);
    let _server = alone(&options);
    let url = format!("rediss+cluster://127.0.0.1:{port}");
    locks(url.clone(), trusting(&papers.path("ca.crt"))).await.unwrap();
    let error = locks(url, trusting(&papers.path("other-ca.crt"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn each_of_a_cluster_s_servers_is_logged_in_to_as_the_program_says() {
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
    // A word that is worth nothing any more is a fault with a reason, and never shown.
    for master in &cluster.masters {
        master.ask("ACL SETUSER app resetpass >second");
        master.ask("CLIENT KILL USER app");
    }
    let error = client.lock("job").wait(millis(500)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("WRONGPASS") && !text.contains("first"), "{text}");
}
