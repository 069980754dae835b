//! A payment is made once for each `Idempotency-Key`, however often it is asked for, and by however many clients at once.
//!
//! A client that goes away ends its request, and its lease with it: the next one waits no longer than for that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use redlock::{ErrorKind, Redlock};

/// What the service has. The results would be in a database.
#[derive(Clone)]
pub struct Payments {
    pub redlock: Redlock,
    pub results: Arc<Mutex<HashMap<String, u64>>>,
    /// How long a payment takes.
    pub work: Duration,
}

/// `POST /payments` with the header `Idempotency-Key`.
pub fn service(payments: Payments) -> Router {
    Router::new().route("/payments", post(pay)).with_state(payments)
}

async fn pay(
    State(payments): State<Payments>,
    headers: HeaderMap,
) -> Result<String, (StatusCode, String)> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.ok_or((StatusCode::BAD_REQUEST, "no Idempotency-Key".to_owned()))?;
    let lock = payments.redlock.lock(format!("payment:{key}")).wait(Duration::from_secs(5));
    let paid = lock.using(async |_| {
        let known = payments.results.lock().unwrap().get(key).copied();
        if let Some(number) = known {
            return number;
        }
        tokio::time::sleep(payments.work).await;
        let mut results = payments.results.lock().unwrap();
        let number = results.len() as u64 + 1;
        results.insert(key.to_owned(), number);
        number
    });
    match paid.await {
        Ok(number) => Ok(format!("payment {number}\n")),
        Err(error) if error.kind() == ErrorKind::Timeout => {
            Err((StatusCode::CONFLICT, "the same payment is under way\n".to_owned()))
        }
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.code()))),
    }
}
