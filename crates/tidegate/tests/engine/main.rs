//! End-to-end tests of the specified behaviour: scenarios ("stories") on the real engine and every
//! store.
//!
//! A story is a function that takes a [`TestHarness`](tidegate::testing::TestHarness), and a line
//! in the list below, from which a macro generates a test for each store. The doc comment of a
//! story cites the lines of the specification that it tests. Stories advance a virtual clock and
//! never wait for real time.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at the rows it is about")]
#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

mod adaptive;
mod answers;
mod batch;
mod beside;
mod clock;
mod close_gate;
mod closing;
mod concurrency;
mod control;
mod debounce;
mod deferred;
mod definitions;
mod deploys;
mod engines;
mod faults;
mod handles;
mod idempotency;
mod idle;
mod lifecycle;
mod mixed_leases;
mod priority;
mod projections;
mod rate_limit;
mod reactions;
mod refused;
mod remote;
mod replace;
mod request_keys;
mod requests;
mod retention;
mod schedules;
mod shape;
mod singleton;
mod sleepers;
mod step_pools;
mod steps;
mod stored;
mod stores;
mod streams;
mod throttle;
mod turns;
mod verdicts;
mod versions;
mod waits;
mod woken;
mod words;

macro_rules! stories {
    ($($topic:ident { $($story:ident,)* })*) => {
        stories! { @on memory $($topic { $($story,)* })* }
        stories! { @on sqlite $($topic { $($story,)* })* }
        stories! { @on postgres $($topic { $($story,)* })* }
    };
    (@on $store:ident $($topic:ident { $($story:ident,)* })*) => {
        mod $store {
            $(mod $topic {
                $(#[tokio::test]
                async fn $story() {
                    let Some(harness) = crate::stores::$store().await else { return };
                    crate::$topic::$story(&harness).await;
                })*
            })*
        }
    };
}

/// Generates the tests of stories that make the store fail.
macro_rules! faulty_stories {
    ($($topic:ident { $($story:ident,)* })*) => {
        mod faulty {
            faulty_stories! { @on memory $($topic { $($story,)* })* }
            faulty_stories! { @on sqlite $($topic { $($story,)* })* }
            faulty_stories! { @on postgres $($topic { $($story,)* })* }
        }
    };
    (@on $store:ident $($topic:ident { $($story:ident,)* })*) => {
        mod $store {
            $(mod $topic {
                $(#[tokio::test]
                async fn $story() {
                    let opened = crate::stores::faulty::$store().await;
                    let Some((harness, faults)) = opened else { return };
                    crate::$topic::$story(&harness, &faults).await;
                })*
            })*
        }
    };
}

stories! {
    idle {
        an_idle_engine_costs_little,
        many_definitions_take_few_transactions,
        what_others_define_is_taken_up_within_a_second,
    }
    handles {
        a_start_runs_one_workflow_and_no_other,
        a_start_fits_the_schema,
        a_start_that_a_control_stops_says_so,
        a_start_joins_a_batch,
        a_run_without_an_output_is_an_error,
        updates_arrive_in_order_until_the_end,
        state_is_found_by_its_type,
        a_read_only_engine_refuses_writes,
    }
    stores {
        a_step_of_another_database_is_refused,
    }
    steps {
        completed_steps_are_not_run_again,
        a_failing_step_is_tried_as_often_as_it_may,
        a_failure_says_when_and_whether_to_try_again,
        parallel_steps_are_recorded_as_each_finishes,
        a_branch_that_waits_does_not_hold_up_another,
        a_panic_is_a_failure_like_others,
        a_handler_that_fails_is_tried_again,
        a_duplicate_id_fails_the_run,
        changed_code_is_noticed,
        values_are_what_can_be_recorded,
        many_steps_at_once_are_recorded,
        time_chance_and_keys_are_stable,
        a_line_is_logged_once,
        progress_is_seen_before_the_step_ends,
    }
    remote {
        code_elsewhere_goes_on_after_a_crash,
        a_group_of_code_elsewhere_is_done_together,
        progress_forgets_failures_of_the_handler,
        a_wait_and_a_replayed_step_are_progress,
        only_what_is_new_and_plain_is_remembered,
        failed_attempts_outlive_a_crash,
        a_member_is_tried_again_beside_another,
    }
    answers {
        a_wait_is_answered_by_the_whole_event,
        a_wait_has_a_condition,
        a_kept_event_meets_the_condition,
        an_error_keeps_its_details,
        a_signal_by_name_has_one_waiter,
        a_run_replaces_its_own_wait,
        a_replaced_wait_goes_on_at_once,
        any_engine_records_steps_of_a_driven_run,
        a_stale_lease_records_nothing,
        a_wait_ends_while_a_call_lasts,
        a_wait_that_ends_at_once_is_told,
        a_handler_counts_failed_attempts,
    }
    lifecycle {
        the_end_of_a_run_posts_events,
        only_events_that_trigger_are_posted,
        a_batch_with_an_end_event_posts_none,
        an_end_event_reaches_a_run_that_waits,
        end_events_outlive_a_crash,
    }
    beside {
        a_failed_step_is_tried_again_beside_another,
        a_backoff_elapses_beside_another_step,
        a_failure_beside_another_step_is_durable,
        waits_begin_beside_a_step,
        an_answer_to_a_step_beside_the_wait_is_not_missed,
        a_step_wins_its_race_on_every_replay,
    }
    step_pools {
        steps_of_many_runs_share_a_pool,
        more_steps_than_a_run_has_in_pools_wait_for_their_end,
        many_steps_of_one_run_pass_a_small_pool,
        a_parked_run_frees_its_worker,
        each_attempt_passes_the_pool,
        what_never_fits_fails_the_step,
        a_rate_limit_uses_up_no_attempt,
        a_dropped_step_gives_its_place_back,
        the_place_ends_with_the_lease,
        steps_of_one_run_take_turns,
    }
    deferred {
        a_run_posts_an_event_for_later,
    }
    adaptive {
        outcomes_of_steps_move_an_adaptive_limit,
        a_step_signals_only_at_its_pool,
    }
    close_gate {
        a_step_closes_the_gate_for_the_other_runs,
        a_step_that_is_always_refused_fails_at_last,
        a_gate_that_the_run_does_not_pass_is_an_error,
    }
    waits {
        a_sleep_ends_at_its_time,
        an_event_wakes_all_who_wait_for_it,
        a_signal_is_kept_until_it_is_asked_for,
        a_run_signals_another_once,
        a_child_answers_its_parent,
        a_refused_child_fails_its_step,
        a_waiting_run_holds_no_slot,
        a_sent_event_is_sent_once,
        waits_in_parallel_are_answered_each,
        a_race_ends_on_every_replay_as_it_did_first,
        a_wait_that_the_code_has_dropped_holds_nothing_up,
        a_run_that_goes_on_shares_its_event_with_the_next_in_line,
    }
    control {
        a_run_is_cancelled_wherever_it_is,
        a_driven_run_stops_at_its_next_await,
        a_run_that_goes_on_at_once_can_be_cancelled,
        a_cancelled_parent_takes_its_children_along,
        a_paused_run_stops_at_its_next_boundary,
        a_new_go_is_made_of_a_run_that_has_ended,
        a_failure_is_handled_once,
        a_run_that_takes_too_long_fails,
        what_was_done_is_undone_newest_first,
        undoing_starts_nothing_of_the_old_run,
        a_newcomer_waits_for_the_undoing_for_a_while,
        an_undo_that_fails_keeps_no_other_from_being_done,
        a_failure_handler_is_undone_by_its_own_code,
    }
    concurrency {
        a_burst_of_fifty_is_driven_five_at_a_time,
        a_full_key_delays_no_other,
        what_lacks_the_key_shares_one_bucket,
        whatever_a_run_waits_for_it_holds_no_slot,
        a_run_that_wakes_queues_again_in_its_old_place,
        however_a_run_ends_the_next_one_starts,
        two_engines_share_the_limit,
        a_dead_engines_slot_comes_back_with_its_lease,
        several_limits_hold_at_once,
        with_the_span_run_a_sleeping_run_counts,
    }
    throttle {
        a_burst_is_spread_out,
        as_many_as_the_burst_start_at_once,
        every_key_has_its_own_rate,
        after_an_outage_the_spacing_holds,
        behind_a_full_gate_the_spacing_holds,
        wakes_and_retries_need_no_turn,
        what_is_cancelled_before_its_turn_never_starts,
        several_engines_share_the_rate,
    }
    rate_limit {
        the_overflow_is_dropped_and_is_still_an_event,
        capacity_comes_back_evenly,
        a_hot_key_does_not_affect_another,
        both_meters_call_the_same_arrivals_overflow,
        several_engines_count_together,
    }
    debounce {
        a_burst_gives_one_run_with_the_last_event,
        keys_debounce_apart,
        a_steady_stream_fires_now_and_then,
        a_window_survives_a_restart,
        a_late_fire_takes_no_later_event,
        one_run_however_many_engines_see_the_deadline,
        a_held_window_keeps_folding,
    }
    batch {
        a_buffer_flushes_at_its_size_or_its_time,
        a_run_without_batch_has_no_list_of_events,
        keys_are_collected_apart,
        every_event_is_in_exactly_one_run,
        a_buffer_survives_a_restart,
        one_request_fills_several_buffers,
        a_held_buffer_flushes_in_chunks,
        what_debounce_fires_is_what_batch_collects,
    }
    turns {
        workflows_take_turns_for_a_worker,
        workflows_take_turns_for_several_workers,
        many_workspaces_take_turns_for_a_worker,
        workspaces_take_turns_for_a_worker,
        a_workflow_that_hangs_does_not_get_all_workers,
        calls_need_no_workers_of_handlers,
        a_run_without_a_worker_is_queued_by_workers,
        a_run_that_gets_a_kept_worker_is_started,
        a_kept_worker_is_for_those_with_few_runs,
    }
    priority {
        a_shift_is_a_bounded_jump,
        priority_breaks_no_limit,
    }
    singleton {
        skip_keeps_the_live_run,
        cancel_replaces_the_live_run,
        a_newcomer_waits_for_the_old_worker,
        keys_are_apart,
        triggers_at_once_leave_one_run,
    }
    idempotency {
        one_run_for_a_key,
        the_window_is_fixed_and_outlives_the_run,
        by_default_one_run_a_day,
        of_repeats_at_once_one_runs,
        a_repeated_dedupe_id_is_dropped_before_anything,
        a_dedupe_id_is_one_per_workspace,
    }
    requests {
        without_a_policy_everything_runs,
        the_action_decides_else_the_flow,
        a_queue_is_served_in_order,
        reject_names_the_holder,
        of_requests_at_once_one_is_admitted,
        reject_sees_who_waits,
        restart_replaces_the_holder,
        debounce_coalesces_and_never_cancels,
        reject_and_idempotency_are_apart,
        who_gives_up_its_place_never_runs,
        a_key_held_by_an_ancestor_is_refused,
    }
    request_keys {
        requests_meet_by_the_key_of_their_policy,
        a_key_function_gives_the_key,
        a_flows_key_function_is_shared_by_its_actions,
        without_its_key_function_a_request_is_refused,
        a_replay_meets_the_policy_by_the_same_key,
        appends_land_while_a_respond_runs,
    }
    versions {
        a_run_keeps_its_version,
        newer_code_can_continue_older_runs,
        rolling_back_is_a_release,
        within_one_version_a_second_run_waits,
        supersede_cancels_older_runs,
        drain_lets_older_runs_finish,
        coexisting_versions_are_counted_apart,
        a_keyed_handover_is_per_key,
        every_way_in_meets_the_handoff,
    }
    deploys {
        rolling_forward_strands_nobody,
        rolling_back_strands_nobody,
        both_programs_at_once_finish_all_runs,
        a_singleton_is_free_again_after_a_deploy,
        the_newest_controls_rule,
        a_number_pins,
        development_changes_a_definition_in_its_place,
        older_code_keeps_the_schedules_of_newer,
        a_failure_handler_that_is_gone_repeats_nothing,
        runs_that_nobody_serves_are_listed,
    }
    retention {
        what_is_over_and_old_is_deleted,
        one_pass_deletes_all_that_is_old,
    }
    definitions {
        everything_that_is_wrong_is_said_at_once,
        a_changed_definition_needs_a_new_number,
        calls_json_and_toml_are_the_same,
        a_batch_is_the_same_in_every_form,
        a_flow_is_the_same_in_every_form,
    }
    replace {
        a_replaced_run_leaves_nothing_in_its_session,
        a_newcomer_starts_when_the_old_one_has_stopped,
        a_sessions_state_is_that_of_one_whole_run,
        who_is_called_changes_the_session_once,
    }
    mixed_leases {
        a_long_lease_is_not_judged_by_a_short_one,
        a_dead_engine_is_judged_by_its_own_lease,
        a_rolling_change_of_the_lease_takes_nothing_over,
        a_crash_loop_pauses_only_what_was_under_way,
    }
    engines {
        an_activation_may_outlast_the_lease,
        a_run_is_driven_by_one_at_a_time,
        a_shutdown_hands_runs_over,
        a_drain_has_a_deadline,
        an_engine_answers_after_it_has_handed_over,
        a_busy_engine_leaves_runs_to_others,
        a_fresh_engine_goes_on_with_every_run,
        all_runs_of_a_dead_engine_are_taken_over_at_once,
    }
    schedules {
        an_occurrence_runs_once_over_all_engines,
        an_occurrence_is_skipped_while_the_last_one_runs,
        occurrences_overlap_if_they_may,
        what_nobody_was_there_for_is_caught_up_with,
        occurrences_wait_for_each_other_or_take_over,
        an_outage_longer_than_the_window_is_told_once,
        a_paused_schedule_stands_still_everywhere,
        a_release_changes_the_schedule,
        a_schedule_says_what_it_is,
        a_schedule_calls_an_action,
    }
    shape {
        a_workflow_without_controls_is_not_shaped,
        any_controls_stand_together,
        a_nested_field_can_be_the_key,
        workspaces_share_nothing,
        what_one_control_refuses_costs_another_nothing,
        a_run_between_its_tries_still_excludes_others,
        a_run_of_another_engine_is_seen_and_not_driven,
        a_bad_payload_makes_no_run,
    }
    stored {
        a_definition_is_served_as_soon_as_it_is_there,
        a_schedule_begins_with_its_definition,
        a_schedule_of_others_begins_beside_ones_own,
        a_stream_can_trigger_what_is_defined_later,
        a_bad_definition_changes_nothing,
        a_dead_engine_serves_nothing,
    }
    reactions {
        streams_are_handled_in_order_and_side_by_side,
        typed_events_are_handled_and_committed,
        a_failing_event_is_tried_again_then_blocks,
        a_final_error_blocks_at_once,
        a_try_waits_for_its_time,
        a_try_that_is_due_first_waits_for_no_other,
        a_lease_outlasts_its_handler_but_not_its_engine,
        a_lost_lease_stops_the_handler,
        a_shutdown_gives_streams_back_at_once,
        a_new_reaction_is_brought_up_to_old_streams,
        a_new_reaction_is_brought_up_to_many_streams,
        a_crash_before_the_ack_leaves_no_effect,
        a_refused_effect_is_a_failure_of_its_event,
        a_flood_on_one_stream_starves_no_other,
        operators_see_and_steer,
        a_bad_reaction_is_refused,
        a_stream_event_triggers_a_workflow,
    }
    projections {
        a_projection_is_kept_with_its_ack,
    }
    closing {
        a_close_waits_for_reactions_and_says_for_whom,
        a_failed_archive_can_be_tried_again,
        a_restarted_stream_begins_with_its_snapshot,
    }
    streams {
        an_action_decides_on_the_state_and_commits_on_its_version,
        a_refusal_is_the_callers_own_and_writes_nothing,
        a_pinned_version_fails_at_once,
        whoever_loses_a_race_decides_again,
        writers_of_one_engine_do_not_collide,
        a_closed_stream_takes_no_action,
        a_restarted_stream_goes_on_from_its_snapshot,
        a_state_is_loaded_as_it_was,
        a_snapshot_changes_nothing_but_the_work,
        an_unknown_event_is_named,
        events_are_read_both_ways_and_filtered,
        a_reader_goes_on_where_it_was,
        any_order_of_actions_gives_one_history,
        a_run_commits_to_a_stream_once,
        a_commit_is_progress,
        a_refused_commit_is_how_its_step_ends,
    }
    verdicts {
        every_outcome_is_told,
        an_event_starts_each_workflow_once,
    }
    woken {
        what_comes_while_a_reaction_works_is_not_overlooked,
        a_handler_that_panics_harms_no_other,
    }
}

faulty_stories! {
    retention {
        one_refused_row_stops_no_pass,
    }
    engines {
        an_engine_that_cannot_renew_stops_in_time,
        a_run_that_is_cancelled_elsewhere_stops_soon,
        a_lease_that_does_not_fit_is_repeated_at_once,
        a_lost_answer_neither_loses_nor_doubles,
    }
    reactions {
        effects_happen_once_whatever_fails,
    }
    closing {
        an_interrupted_close_goes_on,
    }
    streams {
        an_overtaken_action_decides_again,
        nobody_is_told_of_a_state_that_never_was,
        a_commit_that_fails_leaves_nothing,
        whoever_stops_waiting_holds_nobody_up,
        a_run_that_is_overtaken_decides_again,
        a_lost_answer_doubles_no_commit,
    }
    refused {
        a_refused_row_takes_no_neighbour_along,
        the_runs_of_a_split_transaction_are_driven_at_once,
        a_refused_report_frees_one_worker,
        a_lease_that_is_refused_fails_no_command,
        a_page_of_failing_commands_stops_no_sweep,
        one_failing_command_stops_no_sweep,
        one_failing_schedule_stops_no_other,
        a_failed_occurrence_waits_for_no_poll,
        one_run_that_stays_keeps_no_other_from_a_takeover,
        one_stream_that_cannot_be_followed_keeps_no_other,
    }
    woken {
        others_are_woken_for_what_is_left_to_them,
        reactions_outlast_an_outage,
    }
}
