//! Makes one payment for each `Idempotency-Key`, however often and by however many clients it is requested.
//!
//! If a client disconnects, its request and its lease end. The next one need not wait longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use redlock::{ErrorKind, Redlock};

/// The state of the service. A real service would store the results in a database.
#[derive(Clone)]
pub struct Payments {
    pub redlock: Redlock,
    pub results: Arc<Mutex<HashMap<String, u64>>>,
    /// The duration of a payment.
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
