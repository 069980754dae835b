//! Decides which server has a slot if servers report different owners. Pure, and used by the simulation too.
//!
//! A master that is partitioned from its cluster continues to report itself as an owner. The rule is that of the
//! cluster itself: of several claims to a slot, the one with the largest configuration epoch counts.

/// The report of one server about a slot: its own ID, if known, and the ID and configuration epoch of the owner.
pub(crate) type Report<Id> = (Option<Id>, Option<(Id, u64)>);

/// The result of several reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling<Id> {
    /// This server has the slot.
    Owner(Id),
    /// No server reports an owner.
    Unassigned,
    /// The servers contradict each other, and no claim is newer than the others.
    Disputed,
}

/// Compares reports. A claim counts only if its server makes the same claim, where that server was asked. Among claims
/// with the same epoch, the one with the most reports counts. All servers that hide their epochs have the epoch 0.
pub(crate) fn ruling<Id: Copy + Eq>(reports: &[Report<Id>]) -> Ruling<Id> {
    let claims = || reports.iter().filter_map(|(_, claim)| *claim);
    let owner = |claim: &Option<(Id, u64)>| claim.map(|(owner, _)| owner);
    let denied =
        |id: Id| reports.iter().any(|(by, claim)| *by == Some(id) && owner(claim) != Some(id));
    let weight = |id: Id, epoch: u64| (epoch, claims().filter(|(owner, _)| *owner == id).count());
    let sound =
        || claims().filter(|(id, _)| !denied(*id)).map(|(id, epoch)| (id, weight(id, epoch)));
    let Some((best, most)) = sound().max_by_key(|(_, weight)| *weight) else {
        return if claims().next().is_none() { Ruling::Unassigned } else { Ruling::Disputed };
    };
    let tie = sound().any(|(id, weight)| id != best && weight == most);
    if tie { Ruling::Disputed } else { Ruling::Owner(best) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_claim_not_denied_by_its_server_wins() {
        let by = |id: u8, owner: u8, epoch: u64| (Some(id), Some((owner, epoch)));
        let owner = Ruling::Owner;
        // Server 1 is partitioned, and server 4 took over.
        assert_eq!(ruling(&[by(1, 1, 1), by(2, 4, 7)]), owner(4));
        assert_eq!(ruling(&[by(1, 1, 1)]), owner(1));
        // A migration from 1 to 2, which 3 does not know about yet.
        assert_eq!(ruling(&[by(1, 2, 2), by(2, 2, 9), by(3, 1, 1)]), owner(2));
        assert_eq!(ruling(&[by(1, 2, 2), by(3, 1, 4)]), owner(2));
        // Each server names the other as the owner.
        assert_eq!(ruling(&[by(1, 2, 2), by(2, 1, 1), by(3, 1, 1)]), Ruling::Disputed);
        // Without epochs, the majority of the servers decides, if there is one.
        assert_eq!(ruling(&[by(1, 1, 0), by(2, 4, 0), by(3, 4, 0)]), owner(4));
        assert_eq!(ruling(&[by(1, 1, 0), by(2, 4, 0)]), Ruling::Disputed);
        assert_eq!(ruling(&[(None, Some((1, 0))), (Some(2), None)]), owner(1));
        assert_eq!(ruling::<u8>(&[(None, None)]), Ruling::Unassigned);
    }
}
