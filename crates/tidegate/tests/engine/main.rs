//! The promises kept end to end: stories told to the real engine, on every store.
//!
//! A story is one function of a [`Lab`](tidegate::testing::Lab) and one line in the list below, which makes a test of it
//! for each store. The lines of the promise that a story keeps are named in its doc comment. Time
//! is moved, not waited for.

mod control;
mod steps;
mod stores;
mod waits;
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
                    let Some(lab) = crate::stores::$store().await else { return };
                    crate::$topic::$story(&lab).await;
                })*
            })*
        }
    };
}

stories! {
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
    }
    waits {
        a_sleep_ends_at_its_time,
        an_event_wakes_all_who_wait_for_it,
        a_signal_is_kept_until_it_is_asked_for,
        a_child_answers_its_parent,
        a_refused_child_fails_its_step,
        a_waiting_run_holds_no_slot,
        a_sent_event_is_sent_once,
        waits_in_parallel_are_answered_each,
        a_race_ends_on_every_replay_as_it_did_first,
        a_wait_that_the_code_has_dropped_holds_nothing_up,
    }
    control {
        a_run_is_cancelled_wherever_it_is,
        a_driven_run_stops_at_its_next_await,
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
}
