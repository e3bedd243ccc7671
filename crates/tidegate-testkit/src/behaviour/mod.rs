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
pub mod releases;
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
                an_incomplete_handoff_is_refused,
                within_one_version_a_second_run_waits,
                a_handoff_is_of_one_workflow_and_workspace,
                keyed_runs_are_one_per_value,
                an_input_without_the_key_is_refused,
                supersede_cancels_older_runs,
                supersede_moves_unstarted_runs_in_their_places,
                supersede_moves_a_paused_run_that_has_not_started,
                drain_lets_older_runs_finish,
                drain_keeps_the_order_of_versions,
                a_handover_is_per_key,
                coexisting_versions_are_counted_apart,
                a_release_by_itself_changes_nothing,
                every_way_in_meets_the_handoff,
            }
            releases {
                only_a_higher_number_releases_itself,
                a_number_with_another_definition_is_refused,
                assigned_versions_count_up,
                rolling_back_is_a_release,
                a_new_handoff_adopts_live_runs,
                a_coexisting_version_is_adopted_by_the_next,
                a_singleton_beside_a_handoff_is_within_its_version,
                a_fold_takes_the_version_at_its_flush,
                a_new_limit_rules_from_its_release_on,
                a_release_rules_the_next_command,
                an_engine_leases_what_it_serves,
                a_new_handoff_adopts_a_crowd,
                a_raised_limit_serves_a_long_line,
            }
            leases {
                an_old_fence_writes_nothing_after_a_reap,
                an_old_fence_writes_nothing_after_a_cancel,
                a_dead_worker_has_stopped,
                leases_of_several_engines_are_disjoint,
                leases_in_one_transaction_are_disjoint,
                only_the_dead_are_reaped,
                a_dead_engine_leases_nothing,
                a_step_is_recorded_once,
                losses_are_counted_until_there_is_progress,
                a_handover_is_no_loss,
                different_runs_are_driven_side_by_side,
                a_run_keeps_its_id_over_workers_and_attempts,
            }
            waits {
                a_sleep_ends_at_its_moment,
                one_event_wakes_all_who_match,
                all_fields_of_a_match_must_match,
                an_event_from_before_the_wait_does_not_end_it,
                a_wait_that_runs_out_gives_null,
                a_wait_is_answered_while_its_run_is_driven_for_another,
                signals_are_kept_in_the_inbox,
                a_signal_to_a_driven_run_is_not_lost,
                what_became_of_a_child_reaches_its_parent,
                a_refused_child_fails_the_step,
                an_ancestor_is_known_over_generations,
                a_cancelled_parent_leaves_its_children,
                a_child_that_takes_too_long_fails_the_step,
                a_retry_waits_its_time_without_a_slot,
                a_run_is_woken_once,
                a_step_sends_its_event_once,
                a_run_can_replace_itself_by_what_it_sends,
                one_event_wakes_a_crowd,
            }
            control {
                cancel_works_wherever_a_run_is,
                an_ended_run_refuses_everything,
                a_run_of_another_workspace_is_not_found,
                pause_and_resume_work_wherever_a_run_is,
                what_comes_during_a_pause_is_kept,
                a_run_paused_on_its_way_goes_on,
                controls_in_one_transaction_see_each_other,
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
