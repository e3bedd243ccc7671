//! Contract of leases on a server that many processes share, and whose clock decides.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tidegate_store::lease::{Acquire, Leases};

use super::lease::{Place, acquired, held_by, race};

/// Generates the tests of leases that many processes share.
#[macro_export]
macro_rules! shared_lease_contract {
    ($place:ident) => {
        $crate::contract_cases!($place, durable, lease_shared:
            of_many_connections_exactly_one_acquires,
            what_one_connection_holds_all_others_see,
            a_lease_ends_by_the_servers_clock,
        );
    };
}

/// spec B176: of many connections that acquire a lease at the same time, exactly one gets it. Like
/// separate processes, the connections share only the server.
pub async fn of_many_connections_exactly_one_acquires(place: &impl Place) {
    let mut everyone: Vec<Arc<dyn Leases>> = Vec::new();
    for _ in 0..8 {
        everyone.push(place.open().await);
    }
    race(&everyone).await;
}

/// A lease belongs to its holder, not to the connection that acquired it.
pub async fn what_one_connection_holds_all_others_see(place: &impl Place) {
    let (here, there) = (place.open().await, place.open().await);
    let lease = acquired(&here, "a", "one").await;
    assert_eq!(held_by(&there, "a", "two").await, "one");
    assert!(there.release(&lease).await.unwrap());
    assert!(!here.release(&lease).await.unwrap());
}

/// Uses real time, because the clock of the server decides: polls until the lease has ended. The
/// deadline is so late that only a lease which never ends reaches it.
pub async fn a_lease_ends_by_the_servers_clock(place: &impl Place) {
    let leases = place.open().await;
    let first = leases.acquire("a", "one", Duration::from_millis(20)).await.unwrap();
    let first = first.acquired().expect("nobody has it");
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        match leases.acquire("a", "two", Duration::from_mins(1)).await.unwrap() {
            Acquire::Acquired(second) => {
                assert!(second.until > first.until && second.fence > first.fence);
                return;
            }
            Acquire::Held { by, .. } => assert_eq!(by, "one"),
        }
        assert!(Instant::now() < deadline, "a lease of 20 ms has not ended");
        tokio::task::yield_now().await;
    }
}
