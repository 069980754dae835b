//! Whether a lease is held, and how it ended, also as a number for [`super::term`].

use crate::clock::Instant;
use crate::error::LossReason;

/// Whether the lease is held, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Held,
    /// Released by the owner. If another caller releases it, the owner is notified of a loss instead.
    Released,
    /// Detached: the keys live on.
    Detached,
    /// The reason and the time of a loss. If the lease expired, the time is the deadline, even if this was noticed
    /// later.
    Lost(LossReason, Instant),
}

/// The bits of an end that tell how the lease ended. The others are the time of a loss, in units of 16 ns.
const END_BITS: u32 = 5;

impl Status {
    /// The number of an end. It fits for 292 years of a clock.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Held => 0,
            Self::Released => 1,
            Self::Detached => 2,
            Self::Lost(reason, at) => {
                let units = (at.nanos() >> 4).min(u64::MAX >> END_BITS);
                (units << END_BITS) | (3 + reason as u64)
            }
        }
    }

    pub(super) fn of_number(number: u64) -> Self {
        let how = number & ((1 << END_BITS) - 1);
        match how {
            0 => Self::Held,
            1 => Self::Released,
            2 => Self::Detached,
            lost => {
                let reason = LossReason::ALL[usize::try_from(lost - 3).unwrap_or_default()];
                Self::Lost(reason, Instant::from_nanos((number >> END_BITS) << 4))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_status_has_a_number() {
        let at = Instant::from_start(Duration::from_secs(3_000_000_000));
        let lost = LossReason::ALL.map(|reason| Status::Lost(reason, at));
        for status in lost.into_iter().chain([Status::Held, Status::Released, Status::Detached]) {
            assert!(Status::of_number(status.number()) == status);
        }
        assert!(LossReason::ALL.len() + 3 <= 1 << END_BITS);
    }
}
