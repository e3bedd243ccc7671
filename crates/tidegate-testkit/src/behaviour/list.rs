//! The list of all behaviours, topic by topic. Those of flow control are in `flow_list.rs`.

/// Generates one test of every behaviour, for the store that `$open` opens.
#[macro_export]
macro_rules! behaviours {
    ($open:path) => {
        $crate::flow_behaviours! { $open }
        $crate::behaviours! { @list $open;
            conversations {
                replies_start_in_the_order_of_their_messages,
                a_message_that_did_not_get_in_has_no_reply,
                a_refused_reply_leaves_its_message,
                a_refused_message_has_no_reply,
                a_repeated_message_is_answered_once,
                a_reply_holds_no_slot_before_its_message_is_in,
                a_repetition_has_the_reply_of_the_first,
                a_repetition_of_a_failed_call_has_no_reply,
                a_reply_finds_out_that_its_message_has_ended,
                calls_in_both_orders_come_to_their_end,
                a_coalesced_reply_waits_for_all_messages,
                a_coalesced_reply_starts_if_one_message_got_in,
                a_window_remembers_only_messages_under_way,
                a_reply_that_is_ready_waits_for_a_message_that_joins,
                a_cancelled_reply_leaves_its_message,
                a_paused_reply_waits_for_its_message,
            }
            promises {
                a_window_that_lost_its_key_ends_as_deduped,
                a_request_that_lost_its_key_ends_as_deduped,
                a_window_that_fires_into_a_buffer_names_its_run,
                a_window_that_a_release_refuses_ends,
                an_open_window_is_found_among_many,
                an_open_buffer_is_found_by_all_its_runs,
                a_buffer_that_a_release_refuses_gives_its_keys_back,
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
                a_receipt_may_outlive_its_run,
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
            serving {
                a_run_that_nobody_serves_is_stranded,
                a_release_says_how_many_runs_it_strands,
                an_engine_beats_before_it_asks,
                the_dead_are_buried_when_they_own_nothing,
            }
            clock {
                a_throttled_key_waits_for_one_period_at_most,
                a_window_and_a_buffer_are_open_for_one_period_at_most,
                a_claim_is_held_for_one_period_at_most,
                a_wait_lasts_as_long_as_it_was_given_at_most,
                a_time_out_comes_after_its_time_at_most,
                work_that_is_left_does_not_wait,
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
            begun {
                a_wait_begins_while_its_run_is_driven,
                a_kept_signal_ends_a_wait_beside_a_step,
                a_failed_attempt_beside_a_step_is_counted_once,
                a_child_starts_beside_a_step_of_its_parent,
                a_run_that_pauses_keeps_its_new_waits,
                a_new_record_forgets_failures_of_the_handler,
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
                a_run_that_still_folds_can_be_cancelled,
                a_run_that_still_folds_can_be_paused,
                a_held_window_that_is_paused_goes_on_when_it_is_resumed,
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
