//! The behaviours that users are promised, each a story that runs on every store.
//!
//! A case is one function of a [`World`](crate::world::World) and one line in the list below;
//! [`behaviours!`](crate::behaviours) makes a `#[test]` of each for one store. The lines of the
//! promise (B60, G4, …) that a case keeps are named in its doc comment.

pub mod admission;
pub mod batch;
pub mod concurrency;
pub mod control;
pub mod debounce;
pub mod idempotency;
pub mod keys;
pub mod leases;
pub mod policies;
pub mod priority;
pub mod rate_limit;
pub mod reactions;
pub mod singleton;
pub mod streams;
pub mod throttle;
pub mod versions;
pub mod waits;

/// Makes one test of every behaviour, for the store that `$open` opens.
#[macro_export]
macro_rules! behaviours {
    ($open:path) => {
        $crate::behaviours! { @list $open;
            keys {
            }
            concurrency {
                never_more_than_the_limit_are_driven,
                waiters_are_served_in_their_order,
                a_sleeping_run_holds_no_slot_and_queues_again,
            }
            throttle {
            }
            rate_limit {
            }
            debounce {
            }
            batch {
            }
            priority {
            }
            singleton {
            }
            idempotency {
            }
            admission {
            }
            policies {
            }
            versions {
            }
            leases {
            }
            waits {
            }
            control {
            }
            streams {
            }
            reactions {
            }
        }
    };
    (@list $open:path; $($topic:ident { $($case:ident,)* })*) => {
        $(mod $topic {
            $(#[tokio::test]
            async fn $case() {
                let Some(world) = $open().await else { return };
                $crate::behaviour::$topic::$case(&world).await;
            })*
        })*
    };
}
