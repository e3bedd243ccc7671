//! Contract of leases that survive the end of the program that holds them.

use tidegate_store::lease::Renew;

use super::lease::{Place, TTL, acquired, held_by};

/// Generates the tests of leases that survive the end of their process.
#[macro_export]
macro_rules! durable_lease_contract {
    ($place:ident) => {
        $crate::contract_cases!($place, durable, lease_durable:
            a_lease_is_held_after_reopening,
            fences_grow_over_reopening,
        );
    };
}

/// After a restart of its holder, a lease still excludes other holders, and its holder can acquire
/// it again.
pub async fn a_lease_is_held_after_reopening(place: &impl Place) {
    let leases = place.open().await;
    let before = acquired(&leases, "a", "one").await;
    drop(leases);
    let leases = place.open().await;
    assert_eq!(held_by(&leases, "a", "two").await, "one");
    assert_ne!(leases.renew(&before, TTL).await.unwrap(), Renew::Lost);
    assert!(acquired(&leases, "a", "one").await.fence > before.fence);
}

/// Fences also grow over a reopening of the store, even if the lease was free at that time.
pub async fn fences_grow_over_reopening(place: &impl Place) {
    let mut last = 0;
    for _ in 0..3 {
        let leases = place.open().await;
        let lease = acquired(&leases, "a", "one").await;
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        assert!(leases.release(&lease).await.unwrap());
    }
}
