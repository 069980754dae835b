//! Event loops on systems without epoll: the background thread reads for them.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::task::Context;

/// Never exists.
pub(super) struct OnLoop<T>(Infallible, PhantomData<T>);

impl<T> OnLoop<T> {
    pub(super) fn new<D>(_: Box<D>) -> io::Result<Self>
    where
        D: FnMut(&mut Context<'_>, &mut Vec<T>) + Send,
    {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn descriptor(&self) -> i32 {
        match self.0 {}
    }

    pub(super) fn add(&self, _: i32) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn begin(&self) -> (Vec<T>, bool) {
        match self.0 {}
    }

    pub(super) fn flush(&self) {
        match self.0 {}
    }

    pub(super) fn look(&self) -> (Vec<T>, bool) {
        match self.0 {}
    }
}
