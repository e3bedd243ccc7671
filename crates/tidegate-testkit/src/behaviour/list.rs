//! The list of all behaviours, topic by topic.

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
                several_engines_share_the_limit,
                engines_that_race_never_exceed_the_limit,
                waiters_are_served_in_their_order,
                the_caller_is_told_for_which_gate_it_waits,
                a_full_gate_delays_no_other_key,
                several_limits_hold_at_once,
                at_the_next_gate_the_older_run_is_served_first,
                no_run_starves_and_no_two_deadlock,
                with_the_span_run_a_sleeping_run_counts,
                both_spans_stand_side_by_side,
                many_that_end_together_name_their_successors,
                a_new_releases_limit_rules_at_once,
                a_limit_raised_over_a_long_line_serves_all_of_it,
            }
            holds {
                a_sleeping_run_holds_no_slot_and_queues_again,
                whatever_a_run_waits_for_it_holds_no_slot,
                however_a_run_ends_its_slot_is_free_at_once,
                a_run_cancelled_while_driven_keeps_its_slot_until_it_has_stopped,
                a_run_cancelled_while_driven_frees_its_slot_with_its_worker,
                who_replaces_a_driven_run_waits_for_its_stop,
                a_dead_engines_slots_come_back_when_it_is_found_dead,
                a_run_that_lost_its_worker_queues_by_its_rank,
                a_gate_that_an_ancestor_keeps_refuses_at_once,
                a_caller_that_waits_leaves_its_slot_to_its_child,
                a_gate_that_a_stranger_keeps_is_waited_for_or_refused,
            }
            throttle {
                a_burst_is_spread_over_the_window,
                the_caller_is_told_when_its_turn_is_about_due,
                as_many_as_the_burst_start_at_once,
                an_uneven_rate_neither_hurries_nor_drifts,
                a_turn_counts_from_the_first_lease,
                after_an_outage_the_spacing_holds,
                behind_a_full_gate_the_spacing_holds,
                wakes_and_retries_need_no_turn,
                every_key_has_its_own_rate,
                a_run_cancelled_before_its_start_gives_its_turn_back,
                a_run_paused_before_its_start_gives_its_turn_back,
                turns_go_by_rank,
                a_new_rate_counts_from_the_last_start,
                a_slower_rate_remembers_the_burst_before_it,
                several_engines_share_the_rate,
            }
            rate_limit {
                the_overflow_is_dropped_and_told_when_to_come_again,
                capacity_comes_back_evenly,
                the_burst_says_how_many_come_at_once,
                no_interval_admits_more_than_promised,
                engines_that_race_are_counted_together,
                a_hot_key_does_not_affect_another,
                a_dropped_event_still_does_all_else,
                throttle_and_rate_limit_agree_on_the_overflow,
                a_new_rate_remembers_what_was_admitted,
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
            promises {
                a_window_that_lost_its_key_ends_as_deduped,
                a_request_that_lost_its_key_ends_as_deduped,
                a_window_that_fires_into_a_buffer_names_its_run,
                a_window_that_a_release_refuses_ends,
                an_open_window_is_found_among_many,
            }
            priority {
                ready_runs_are_leased_by_rank_over_all_workflows,
                what_becomes_ready_with_a_lease_is_leased_by_rank,
                an_engine_takes_only_what_it_serves,
                workspaces_are_leased_apart,
                a_shift_moves_a_run_ahead_by_at_most_itself,
                the_own_order_is_unchanged,
                priority_does_not_break_a_limit,
            }
            output {
                what_a_run_emits_is_kept_once_and_in_order,
                output_has_bounds,
                the_last_progress_stays,
            }
            repeats {
                a_repeated_request_takes_place_once,
                of_requests_at_once_one_takes_place,
                every_answer_comes_back_as_it_was,
                a_refused_request_leaves_its_key_free,
                the_first_word_is_kept,
                old_answers_go,
            }
            retention {
                old_runs_go_with_all_that_is_theirs,
                what_is_relied_on_stays,
                the_source_of_a_replay_stays,
                a_pass_goes_part_by_part,
            }
            retired {
                nothing_starts_a_retired_workflow,
                what_a_retired_workflow_has_accepted_goes_on,
                a_retired_workflow_comes_back,
            }
            schedules {
                an_occurrence_gives_one_run_over_all_engines,
                an_occurrence_is_no_event,
                a_schedule_is_planned_once,
                a_release_ends_the_schedules_that_it_lacks,
                a_missed_occurrence_is_recorded,
            }
            overlap {
                an_occurrence_is_skipped_in_every_state_of_the_last,
                occurrences_that_queue_run_in_order,
                occurrences_queue_by_arrival_whatever_the_priority,
                an_occurrence_that_waited_too_long_gives_up,
                an_occurrence_takes_the_place_of_the_last,
                the_current_release_says_what_overlaps,
                a_paused_schedule_plans_nothing,
                schedules_are_listed_with_their_last_occurrence,
                another_name_of_a_schedule_is_no_new_version,
                a_retry_of_an_occurrence_does_what_was_staged_once,
            }
            serving {
                a_run_that_nobody_serves_is_stranded,
                a_release_says_how_many_runs_it_strands,
                an_engine_beats_before_it_asks,
                the_dead_are_buried_when_they_own_nothing,
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
                a_clock_that_steps_back_keeps_order_and_shuts_nothing,
                controls_act_in_one_order,
                a_dry_run_changes_nothing,
                what_a_gate_skips_costs_nothing,
                what_a_rate_limit_drops_costs_nothing,
                what_is_deduped_or_rejected_costs_nothing,
                a_run_cancelled_in_line_gives_everything_back,
                a_fold_is_counted_once,
                what_one_workflow_refuses_is_still_an_event,
                schedules_and_calls_pass_gates_only,
                an_event_starts_each_workflow_once,
                all_controls_hold_at_once,
            }
            receipts {
                every_verdict_but_a_plain_start_is_kept,
                a_receipt_says_what_is_missing,
                each_workflow_writes_its_own_receipt,
                refused_schedules_and_calls_are_kept,
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
                a_caller_gives_up_where_the_policy_does_not_say,
                an_input_that_does_not_fit_is_refused,
                a_queued_request_can_be_cancelled,
                a_key_held_by_an_ancestor_is_refused,
                a_schedule_skips_or_allows_overlap,
                schedules_of_others_are_apart,
                an_action_is_not_triggered_by_events,
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
                what_a_definition_says_of_itself_makes_no_version,
                rolling_back_is_a_release,
                releases_in_turn_make_no_deadlock,
                a_release_gives_no_hold_to_those_who_are_yet_to_wait,
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
            deploys {
                deploys_back_and_forth_make_no_new_versions,
                a_release_by_hand_outlasts_restarts,
                versions_record_who_numbered_them,
                versions_from_before_are_not_stranded,
                a_deploy_without_a_number_strands_nobody,
                development_keeps_the_number,
                why_names_the_stranded_run_that_is_in_the_way,
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
                deaths_under_way_pause_a_run,
                a_death_before_the_handler_is_not_counted,
                a_run_called_by_url_survives_any_number_of_deaths,
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
                a_child_that_takes_too_long_fails_the_step,
                a_retry_waits_its_time_without_a_slot,
                a_run_is_woken_once,
                a_step_sends_its_event_once,
                a_run_can_replace_itself_by_what_it_sends,
                one_event_wakes_a_crowd,
                a_recorded_step_is_not_waited_for_again,
                one_step_waits_for_one_thing,
            }
            children {
                a_cancelled_parent_takes_its_children_along,
                whoever_replaces_a_parent_ends_its_children_too,
                a_parent_that_took_too_long_takes_its_children_along,
                a_child_that_nobody_waits_for_goes_on,
                what_a_cancelled_child_held_goes_to_the_next,
                a_line_of_descendants_is_cancelled_together,
            }
            chores {
                an_event_wakes_a_crowd_chunk_by_chunk,
                events_of_a_name_wake_in_their_order,
                a_large_family_is_cancelled_in_chunks,
                a_bulk_operation_goes_chunk_by_chunk,
                a_bulk_operation_does_what_its_filter_says,
            }
            control {
                cancel_works_wherever_a_run_is,
                an_ended_run_refuses_everything,
                a_run_of_another_workspace_is_not_found,
                pause_and_resume_work_wherever_a_run_is,
                what_comes_during_a_pause_is_kept,
                a_run_paused_in_line_keeps_its_place,
                a_run_paused_on_its_way_goes_on,
                controls_in_one_transaction_see_each_other,
            }
            streams {
                versions_begin_at_0_and_have_no_gap,
                a_wrong_expectation_writes_nothing,
                of_two_with_one_expectation_one_succeeds,
                two_first_commits_collide_as_any_others,
                a_commit_is_written_whole_or_not_at_all,
                what_is_committed_never_changes,
                the_log_deduplicates_nothing,
                no_reader_of_the_feed_skips_a_late_commit,
                behind_the_guard_nothing_is_committed,
                a_truncation_waits_for_reactions_and_leases,
                a_truncation_goes_in_chunks_and_can_be_taken_up_again,
                a_restarted_stream_begins_at_0_with_a_snapshot,
            }
            reactions {
                a_claim_leases_what_has_work,
                claims_of_several_engines_are_disjoint,
                leases_and_commits_do_not_meet,
                an_ack_moves_the_place_and_frees_the_lease,
                an_ack_of_several_is_all_or_nothing,
                a_failure_keeps_what_was_handled,
                a_stream_is_blocked_when_its_retries_are_used_up,
                a_blocked_stream_is_never_claimed,
                what_comes_after_the_lease_has_no_effect,
                a_renewed_lease_is_kept,
            }
            reacting {
                effects_are_kept_with_the_ack,
                a_lost_lease_keeps_no_effect,
                a_refused_effect_refuses_the_whole,
                a_repeated_report_changes_nothing,
                from_the_head_on_the_past_is_no_news,
                a_stream_trigger_is_asked_for_by_name,
                an_operator_puts_streams_off,
                an_operator_puts_streams_first,
            }
            repairs {
                leases_lost_too_often_block_the_stream,
                a_backoff_is_waited_for,
                what_is_put_off_is_invisible_until_due,
                no_stream_with_work_starves,
                who_had_a_turn_goes_to_the_back,
                unblock_goes_on_and_reset_replays,
                filters_restrict_as_they_say,
                reactions_do_not_share_a_place,
                a_stuck_stream_can_be_looked_at,
            }
            explain {
                a_run_in_line_names_holders_and_place,
                of_several_holders_any_one_makes_room,
                behind_a_draining_holder_its_stop_is_awaited,
                a_throttles_turn_is_exact,
                a_turn_behind_one_not_started_has_no_moment,
                whatever_else_a_run_does_is_said,
                a_replaced_run_names_who_took_its_place,
                a_run_that_is_still_folding_is_known,
                only_the_workspaces_own_runs_are_explained,
            }
            compensation {
                whatever_ends_a_run_but_success_is_followed_by_its_undoing,
                a_compensation_counts_once,
                the_undoing_of_a_driven_run_waits_for_its_stop,
                who_replaces_a_run_waits_for_its_undoing,
                a_session_waits_for_the_undoing,
                a_newcomer_waits_no_longer_than_the_time_out,
                the_undoing_keeps_run_gates_and_no_others,
                what_undoes_is_not_undone,
                nobody_is_skipped_for_an_undoing,
                a_superseding_version_waits_for_the_undoing,
                a_run_that_replaces_itself_is_undone,
                a_failure_is_handled_once,
                a_failure_is_followed_where_somebody_handles_it,
                a_parent_does_not_wait_for_the_undoing,
                an_ended_run_says_why_there_was_one,
            }
            replays {
                a_replay_is_a_new_run_of_the_same_input,
                a_replay_is_of_the_current_version,
                a_replay_may_have_another_input,
                a_batch_is_replayed_whole,
                a_replay_passes_gates_and_throttle_only,
                a_replay_may_be_refused_by_a_gate,
                a_retry_goes_on_from_a_step,
                a_retry_stays_in_its_version,
                a_retry_takes_nobody_back_to_its_version,
                what_cannot_be_replayed_is_said_so,
                what_was_undone_is_not_kept,
                an_undoing_can_be_tried_again,
                a_replay_of_a_stopping_run_waits_for_its_stop,
            }
            timeouts {
                wherever_a_run_is_its_time_is_over,
                a_driven_run_is_stopped_when_its_time_is_over,
                the_time_counts_from_the_first_start,
                a_run_has_the_time_of_its_version,
                a_parent_is_told_of_a_time_out,
                what_follows_a_run_is_not_timed,
                a_queued_request_gives_up_at_its_own_time,
                who_has_its_session_does_not_give_up,
            }
            lists {
                a_list_is_complete_whatever_its_pages,
                a_list_is_stable_while_runs_come_and_end,
                a_list_shows_what_was_asked_for,
            }
            observe {
                runs_are_counted_where_they_are,
                what_is_pending_goes_down_with_the_flush,
                gates_say_who_is_inside_and_who_waits,
                events_and_receipts_are_listed_newest_first,
                an_event_is_shown_with_all_that_came_of_it,
                runs_are_listed_by_name_key_and_time,
                the_longest_lines_come_first,
            }
            life {
                where_a_run_has_been_is_told_without_gaps,
                a_run_knows_where_it_came_from,
            }
            sessions {
                an_operation_is_a_step_and_happens_once,
                the_operations_of_a_report_follow_each_other,
                runs_that_race_lose_no_update,
                every_respond_sees_what_was_appended_before_it,
                what_does_not_fit_fails_its_step_and_changes_nothing,
                a_worker_without_its_lease_writes_nothing,
                from_outside_a_version_can_be_insisted_on,
                a_step_can_insist_on_a_version,
                sessions_are_apart,
                the_rest_of_a_document_is_kept_byte_for_byte,
            }
            staged {
                a_run_sees_its_own_writes_before_anybody_else,
                a_replaced_run_leaves_nothing_wherever_it_stood,
                every_end_but_completion_drops_what_was_staged,
                a_set_on_what_changed_since_it_was_read_fails_the_run,
                a_run_that_reads_again_knows_what_changed,
                a_later_read_excuses_no_set,
                a_retry_stages_again_what_was_dropped,
                what_a_run_stages_has_bounds,
                as_many_operations_as_allowed_are_settled,
                whether_a_run_stages_is_said_by_its_own_version,
                a_newcomer_sees_what_the_replaced_run_did,
                a_newcomer_names_only_whose_place_it_has,
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
