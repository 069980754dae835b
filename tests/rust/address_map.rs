//! Servers that announce addresses at which this client cannot reach them, and where it reaches them instead.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use redlock::{Builder, Error, ErrorKind, Redlock};

use crate::support::{
    Certificates, Cluster, Sentinels, Server, alone, eventually, free_port, millis, trusting,
};

/// A client that gives up soon.
fn quick(url: impl Into<String>) -> Builder {
    Redlock::builder([url.into()]).connect_timeout(millis(1_000))
}

async fn locks(client: Redlock) -> Result<(), Error> {
    client.lock("job").wait(millis(3_000)).acquire().await?.release().await
}

/// Acquires until the error contains these words. On a busy machine, the first `wait` may end before there is a reason.
async fn refused_with(builder: Builder, words: &str) -> String {
    let client = builder.build().unwrap();
    let mut text = String::new();
    for _ in 0..50 {
        let error = client.lock("job").wait(millis(300)).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        text = error.to_string();
        if text.contains(words) {
            return text;
        }
    }
    panic!("{words}: {text}");
}

#[tokio::test]
async fn reaches_a_cluster_that_announces_other_addresses() {
    let (cluster, announced) = Cluster::behind_nat(2);
    let ports: Vec<(u16, u16)> =
        announced.iter().copied().zip(cluster.masters.iter().map(|master| master.port)).collect();
    let seed = cluster.masters[0].port;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let builder =
        quick(format!("redis+cluster://127.0.0.1:{seed}")).address_map(move |host, port| {
            assert_eq!(std::thread::current().name(), Some("redlock-address-map"));
            log.lock().unwrap().push(port);
            let reached = ports.iter().find(|(announced, _)| *announced == port);
            (host.to_owned(), reached.expect("only announced addresses are mapped").1)
        });
    let client = builder.build().unwrap();
    let mut owners = [false; 2];
    for at in 0..12 {
        let lease = client.lock(format!("job-{at}")).acquire().await.unwrap();
        owners[cluster.owner_of(&lease.key())] = true;
        lease.release().await.unwrap();
    }
    assert_eq!(owners, [true; 2], "names in every server's slots");
    // `MOVED` names an announced address too.
    let lease = client.lock("job").acquire().await.unwrap();
    let owner = cluster.owner_of(&lease.key());
    cluster.move_slot(&lease.key(), 1 - owner);
    lease.extend(millis(10_000)).await.unwrap();
    lease.release().await.unwrap();
    assert!(!asked.lock().unwrap().contains(&seed), "the URL's address stays as it is");
}

#[tokio::test]
async fn unreachable_announced_address_names_its_source_and_the_option() {
    let announced = free_port();
    let server = alone(&["--cluster-announce-port", &announced.to_string()]);
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    let expected = format!(
        "127.0.0.1:{announced} was announced by 127.0.0.1:{}; set address_map",
        server.port
    );
    refused_with(quick(&url), &expected).await;
    let elsewhere = free_port();
    let expected = format!("and address_map leads to 127.0.0.1:{elsewhere}");
    refused_with(quick(&url).address_map(move |host, _| (host.into(), elsewhere)), &expected).await;
    // The address of the URL is the user's own.
    let text =
        refused_with(quick(format!("redis+cluster://127.0.0.1:{elsewhere}")), "refused").await;
    assert!(!text.contains("address_map"), "{text}");
}

#[tokio::test]
async fn reaches_a_primary_that_sentinels_report_under_another_address() {
    let (server, announced) = (Server::start(), free_port());
    let sentinels = Sentinels::reporting(announced);
    let url = format!("redis+sentinel://127.0.0.1:{}/service-0", sentinels.ports[0]);
    let expected = format!(
        "127.0.0.1:{announced} was announced by the sentinels of service-0; set address_map"
    );
    refused_with(quick(&url), &expected).await;
    let port = server.port;
    let mapped = quick(&url).address_map(move |host, from| {
        assert_eq!(from, announced);
        (host.to_owned(), port)
    });
    locks(mapped.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn function_that_fails_is_an_error_that_names_the_option() {
    let server = alone(&["--cluster-announce-port", &free_port().to_string()]);
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    refused_with(
        quick(&url).address_map(|_, _| panic!("not in any text")),
        "address_map panicked (for 127.0.0.1:",
    )
    .await;
    refused_with(
        quick(&url).address_map(|_, _| (String::new(), 1)),
        "address_map returned \"\", which is not",
    )
    .await;
}

#[tokio::test]
async fn function_that_hangs_delays_no_other_client() {
    let (other, announced) = (Server::start(), free_port());
    let server = alone(&["--cluster-announce-port", &announced.to_string()]);
    let (go_on, waits) = mpsc::channel::<()>();
    let (waits, is_called, calls) =
        (Mutex::new(waits), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (called, port, count) = (Arc::clone(&is_called), server.port, Arc::clone(&calls));
    let url = format!("redis+cluster://127.0.0.1:{port}");
    let client = Redlock::builder([url]).address_map(move |host, _| {
        count.fetch_add(1, Ordering::SeqCst);
        called.store(true, Ordering::SeqCst);
        let _ = waits.lock().unwrap().recv();
        (host.to_owned(), port)
    });
    let client = client.build().unwrap();
    let acquire = tokio::spawn(async move { locks(client).await });
    eventually("the map is called", || is_called.load(Ordering::SeqCst)).await;
    locks(Redlock::builder([other.url()]).build().unwrap()).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a call that hangs is not repeated");
    drop(go_on);
    acquire.await.unwrap().unwrap();
}

#[test]
fn map_without_a_node_that_announces_addresses_is_an_error() {
    let map = |host: &str, port| (host.to_owned(), port);
    let error = Redlock::builder(["redis://127.0.0.1"]).address_map(map).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("redis+sentinel://"), "{error}");
}

#[tokio::test]
async fn only_the_sentinels_use_tls() {
    let certificates = Certificates::new();
    let server = Server::start();
    let sentinels = Sentinels::alone(server.port, |name| certificates.path(name));
    let place = format!("127.0.0.1:{}/service-0", sentinels.ports[0]);
    let tls = || trusting(&certificates.path("ca.crt"));
    let url = format!("redis+sentinel://{place}?sentinel_tls=true");
    locks(quick(&url).tls(tls()).build().unwrap()).await.unwrap();
    refused_with(quick(&url), "UnknownIssuer").await;
    // Without the parameter, the error names it.
    refused_with(quick(format!("redis+sentinel://{place}")), "sentinel_tls=true").await;
}

#[tokio::test]
async fn only_the_servers_use_tls() {
    let certificates = Certificates::new();
    let (_server, tls_port) = certificates.server("no");
    let sentinels = Sentinels::reporting(tls_port);
    let place = format!("127.0.0.1:{}/service-0", sentinels.ports[0]);
    let tls = || trusting(&certificates.path("ca.crt"));
    let url = format!("rediss+sentinel://{place}?sentinel_tls=false");
    locks(quick(&url).tls(tls()).build().unwrap()).await.unwrap();
    refused_with(quick(&url), "UnknownIssuer").await;
    // Without the option, the error of each scheme names it.
    let url = format!("redis+sentinel://{place}");
    refused_with(quick(&url), "with sentinel_tls=false").await;
    let url = format!("rediss+sentinel://{place}");
    refused_with(quick(&url).tls(tls()), "sentinel_tls says").await;
}
