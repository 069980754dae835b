//! Where nothing makes one descriptor of many, no runtime reads by itself: all runs on the background thread.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::way::Way;
use crate::error::Result;

/// There is none.
pub(crate) struct OnRuntime(std::convert::Infallible);

/// There is nothing to write.
pub(crate) fn flush() {}

impl OnRuntime {
    #[allow(clippy::unnecessary_wraps, reason = "other systems have something to refuse")]
    pub(crate) fn start(_: &Handle) -> Result<Option<Arc<Self>>> {
        Ok(None)
    }

    pub(crate) fn asked<W: Way + 'static>(&self, _: &Arc<W>) -> bool {
        match self.0 {}
    }
}
