//! Replaces `on_runtime` on systems without an epoll: everything runs on the background thread.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::way::Way;
use crate::error::Result;

/// Never exists.
pub(crate) struct OnRuntime(std::convert::Infallible);

/// Does nothing.
pub(crate) fn flush() {}

impl OnRuntime {
    #[allow(clippy::unnecessary_wraps, reason = "other systems can fail")]
    pub(crate) fn start(_: &Handle) -> Result<Option<Arc<Self>>> {
        Ok(None)
    }

    pub(crate) fn asked<W: Way + 'static>(&self, _: &Arc<W>) -> bool {
        match self.0 {}
    }
}
