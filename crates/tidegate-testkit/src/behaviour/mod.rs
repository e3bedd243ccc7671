//! The behaviours that users are promised, each a story that runs on every store.
//!
//! A case is one function of a [`World`](crate::world::World) and one line in the list below;
//! [`behaviours!`](crate::behaviours) makes a `#[test]` of each for one store. The lines of the
//! promise (B60, G4, …) that a case keeps are named in its doc comment.

pub mod admission;
pub mod arbitration;
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
                a_burst_gives_one_run_with_the_last_event,
                keys_debounce_apart,
                an_event_after_the_fire_opens_a_new_window,
                a_late_fire_takes_no_later_event,
                a_steady_stream_fires_at_its_longest_wait,
                a_window_survives_a_restart_of_all_engines,
                one_run_however_many_engines_see_the_deadline,
                a_held_window_keeps_folding_until_the_holder_ends,
                held_windows_flush_one_by_one_in_order,
                a_held_window_that_comes_to_nothing_does_not_stop_the_others,
                a_window_fires_through_as_many_gates_as_there_can_be,
                each_coalesced_event_has_a_receipt,
                what_debounce_fires_is_what_batch_collects,
                a_window_fires_by_the_release_of_that_moment,
                workspaces_and_workflows_debounce_apart,
                a_burst_in_one_request_is_one_run,
                a_window_fires_into_a_held_buffer,
            }
            batch {
                a_full_buffer_flushes_at_once,
                a_buffer_flushes_a_time_after_its_first_event,
                a_run_without_batch_has_no_list_of_events,
                keys_are_collected_apart,
                every_event_is_in_exactly_one_run,
                one_request_fills_several_buffers,
                an_old_timer_flushes_no_new_buffer,
                a_buffer_survives_a_restart_of_all_engines,
                a_late_flush_takes_no_later_event,
                a_buffer_holds_no_more_bytes_than_allowed,
                a_held_buffer_flushes_in_chunks,
                a_held_buffer_keeps_to_its_bytes,
                each_member_takes_its_own_claim,
                a_buffer_flushes_by_the_release_of_that_moment,
                gates_of_a_batch_go_by_its_key,
                each_buffered_event_has_a_receipt,
            }
            priority {
            }
            singleton {
                skip_keeps_the_live_run_wherever_it_is,
                cancel_replaces_the_live_run_wherever_it_is,
                a_replaced_run_writes_nothing_more,
                a_chain_of_replacements_leaves_the_last,
                one_run_waits_for_a_run_cancelled_by_hand,
                a_new_mode_rules_from_its_release_on,
                by_default_it_cancels_and_covers_the_workflow,
                keys_workflows_and_workspaces_are_apart,
                after_any_end_the_next_trigger_starts,
                triggers_at_once_leave_one_run_per_key,
                a_skipped_event_is_recorded_and_wakes_waiters,
                a_newcomer_inherits_the_rank_of_a_run_not_yet_started,
                a_newcomer_for_a_started_run_queues_anew,
                a_paused_run_keeps_its_key_and_no_slot,
                a_skipped_event_consumes_nothing,
            }
            idempotency {
                the_first_event_of_a_key_runs_and_the_others_do_not,
                a_repeat_is_still_an_event,
                repeats_do_not_extend_the_window,
                the_window_outlives_the_run,
                by_default_one_run_of_the_workflow_a_day,
                claims_are_apart,
                of_repeats_at_once_exactly_one_runs,
                a_run_replaced_before_its_first_step_gives_its_claim_back,
                a_window_claims_its_last_event_when_it_fires,
                a_repeated_dedupe_id_is_dropped_before_anything,
                a_dedupe_id_is_remembered_for_a_day,
                a_dedupe_id_is_one_per_workspace,
                a_lost_answer_can_be_asked_for_again,
            }
            admission {
            }
            policies {
                without_a_policy_everything_runs,
                the_action_decides_else_the_flow,
                a_queue_is_served_in_order_over_all_actions,
                a_queue_goes_by_arrival_whatever_the_priority,
                a_queue_goes_on_however_the_running_one_ends,
                reject_names_the_holder_and_forgets_the_refused,
                of_rejecting_requests_at_once_one_is_admitted,
                reject_sees_who_waits,
                allow_neither_takes_nor_sees_the_gate,
                idempotency_and_arbitration_are_apart,
                restart_replaces_the_holder_and_keeps_the_queue,
                restarts_replace_each_other,
                restarts_after_a_cancel_by_hand_replace_each_other,
                debounce_coalesces_and_never_cancels,
                a_cancelled_window_takes_no_more,
                a_waiting_window_claims_its_last_input,
            }
            arbitration {
                requests_meet_by_the_key_of_their_policy,
                a_key_may_be_any_value_of_the_request,
                tenants_and_flows_never_meet,
                kinds_of_keys_are_apart,
                a_key_function_gives_the_key,
                a_window_keeps_what_the_key_function_said,
                a_request_cannot_choose_its_policy,
                a_request_gives_up_its_place_in_time,
                a_request_gives_up_its_place_at_an_earlier_gate_too,
                a_queued_request_can_be_cancelled,
                a_key_held_by_an_ancestor_is_refused,
                a_schedule_skips_or_allows_overlap,
                schedules_of_others_are_apart,
                an_action_is_not_triggered_by_events,
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
