//! `from_connection_info`: settings of a `redis` crate client are adopted, or refused by name.

use std::path::PathBuf;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use redlock::{Builder, Error, ErrorKind, Redlock, TlsOptions};

use crate::support::Certificates;
use crate::support::{Server, millis};

fn adopted(info: &ConnectionInfo) -> Result<Redlock, Error> {
    Redlock::from_connection_info([info])
}

fn info_for(addr: ConnectionAddr) -> ConnectionInfo {
    addr.into_connection_info().unwrap()
}

#[test]
fn connection_info_equals_its_url() {
    for (theirs, ours) in [
        ("redis://127.0.0.1", "redis://127.0.0.1:6379"),
        ("redis://10.0.0.7:6380/3", "redis://10.0.0.7:6380/3"),
        ("redis://u:p%40%2F%3A%23@cache.example.com", "redis://cache.example.com:6379"),
        ("redis://:s3cret@[::1]:6380", "redis://[::1]:6380"),
        ("unix:///tmp/a%20b.sock?db=2&user=u&pass=s3cret", "unix:///tmp/a b.sock/2"),
    ] {
        let client = Client::open(theirs).unwrap();
        assert_eq!(adopted(client.get_connection_info()).unwrap().nodes(), [ours], "{theirs}");
    }
    let several = ["redis://a", "redis://b", "redis://c"].map(|url| Client::open(url).unwrap());
    let builder = Builder::from_connection_info(several.iter().map(Client::get_connection_info));
    let client = builder.unwrap().key_prefix("app:").build().unwrap();
    assert_eq!(client.nodes(), ["redis://a:6379", "redis://b:6379", "redis://c:6379"]);
    assert_eq!(client.lock("job").key(), "app:job");
}

#[tokio::test]
async fn connects_with_their_user_and_database() {
    let server = Server::start();
    assert_eq!(server.ask("ACL SETUSER app on >p@ss:/#%word ~* +@all &*"), "+OK");
    let login = RedisConnectionInfo::default().set_username("app").set_password("p@ss:/#%word");
    let info = info_for(ConnectionAddr::Tcp("127.0.0.1".into(), server.port));
    let info = info.set_redis_settings(login.clone().set_db(5));
    let lease = adopted(&info).unwrap().lock("job").wait(millis(1000)).acquire().await.unwrap();
    assert_eq!(server.ask("GET lock:job"), "$-1");
    let shown = format!("{:?}", adopted(&info).unwrap());
    assert!(!shown.contains("word"), "{shown}");
    lease.release().await.unwrap();

    // The server refuses the wrong password, which shows that the client adopted it.
    let info = info.set_redis_settings(login.set_password("other"));
    let error = adopted(&info).unwrap().lock("job").wait(millis(300)).acquire().await.unwrap_err();
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
}

#[test]
fn refuses_unsupported_settings_before_connecting() {
    let tcp = |host: &str| info_for(ConnectionAddr::Tcp(host.to_owned(), 1));
    let login = |user: Option<&str>, db| {
        let settings = RedisConnectionInfo::default().set_db(db);
        let settings = match user {
            Some(user) => settings.set_username(user),
            None => settings,
        };
        tcp("127.0.0.1").set_redis_settings(settings)
    };
    for (info, word) in [
        // A host that ends early leads to another server, which would receive the password.
        (tcp("good@evil"), "its host"),
        (tcp("evil/"), "its host"),
        (tcp("evil?"), "its host"),
        (tcp("evil#"), "its host"),
        (tcp("a b"), "its host"),
        (tcp("a:80"), "its host"),
        (tcp(""), "host"),
        (login(Some("user"), 0), "user without a password"),
        (login(None, -1), "database"),
        (info_for(ConnectionAddr::Unix(PathBuf::from("relative.sock"))), "socket"),
    ] {
        let shown = format!("{info:?}");
        let error = adopted(&info).expect_err(&shown);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{shown}: {error}");
        assert!(error.to_string().contains(word), "{shown}: {error}");
    }
    assert!(Builder::from_connection_info([]).unwrap().build().is_err());
}

fn tls_info(port: u16, insecure: bool) -> ConnectionInfo {
    let (host, tls_params) = ("127.0.0.1".to_owned(), None);
    info_for(ConnectionAddr::TcpTls { host, port, insecure, tls_params })
}

#[tokio::test]
async fn adopts_tls_and_its_verification() {
    let certificates = Certificates::new();
    let (_server, port) = certificates.server("no");
    let locks = async |builder: Builder| {
        let lock = builder.build()?.lock("job").wait(millis(1000));
        lock.acquire().await?.release().await
    };
    let of = |insecure| Builder::from_connection_info([&tls_info(port, insecure)]).unwrap();
    let ours = || TlsOptions::new().ca(certificates.path("ca.crt"));
    locks(of(false).tls(ours())).await.unwrap();
    assert_eq!(locks(of(false)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    locks(of(true)).await.unwrap();
    // Settings that both sides specify must be equal.
    let error = locks(of(true).tls(TlsOptions::new().verify(true))).await.unwrap_err();
    assert!(error.to_string().contains("differ. Use only one"), "{error}");
}
