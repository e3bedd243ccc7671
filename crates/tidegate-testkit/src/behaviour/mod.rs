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
                every_value_workflow_and_workspace_is_counted_apart,
                without_a_key_the_whole_workflow_is_counted,
                what_lacks_the_key_shares_one_bucket,
                a_key_is_a_plain_path,
                types_stay_apart_and_numbers_compare_by_value,
                payloads_are_kept_byte_for_byte,
                long_keys_are_told_apart_and_shown_by_their_beginning,
                a_value_that_cannot_be_a_key_is_said_so,
                a_policy_key_says_which_requests_meet,
                an_actions_paths_start_at_the_request,
                the_kinds_of_policy_keys_are_apart,
                a_workflow_without_controls_runs_unshaped,
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
