//! The value of an option, as the bindings pass it.

use std::sync::Arc;

use crate::node::Pem;
use crate::node::credentials::Ask;

/// The value of an option, as the bindings pass it.
#[derive(Clone)]
pub enum Value {
    /// A time in the caller's unit, or a count.
    Number(f64),
    /// True or false.
    Switch(bool),
    /// Text.
    Text(String),
    /// The path of a PEM file, or its content.
    Pem(Pem),
    /// A callback that supplies credentials.
    Credentials(Arc<dyn Ask>),
}

impl From<Arc<dyn Ask>> for Value {
    fn from(source: Arc<dyn Ask>) -> Self {
        Self::Credentials(source)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Switch(yes)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Pem> for Value {
    fn from(pem: Pem) -> Self {
        Self::Pem(pem)
    }
}
