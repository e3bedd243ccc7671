//! Crash tests: the real engine in real processes that are killed, stopped and terminated, on a
//! SQLite file and on PostgreSQL. With `TIDEGATE_TEST_FULL` the storms on streams have their full
//! size.
//!
//! A test starts this program again as its child processes. Their orders say what to do and where
//! to stop. The children record their actions in a [`journal`](journal::Journal) outside of the
//! store. The test waits for a line of the journal, kills a process, and checks the journal and the
//! rows at the end. Where it can wait for a line, a test does not wait for a time.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a check looks at the rows that matter to it")]
#![allow(clippy::print_stderr, reason = "a test reports measurements and skips")]

mod child;
mod crowd;
mod drain;
mod handover;
mod journal;
mod ledger;
mod matrix;
mod place;
mod process;
mod readers;
mod storm;
mod watch;
mod writers;
mod zombie;

use place::Place;

/// spec B178, B179, B180, B181, B173: a crash at every point, on a SQLite file with one owner at a
/// time.
#[test]
fn a_crash_at_any_point_loses_and_repeats_nothing_on_sqlite() {
    matrix::judge_all(|scene| Some(Place::Sqlite(scene.path("tidegate.db"))));
}

/// spec B178, B179, B180, B181, B173: a crash at every point on PostgreSQL, with a takeover by
/// another process.
#[test]
fn a_crash_at_any_point_loses_and_repeats_nothing_on_postgres() {
    matrix::judge_all(|_| Place::postgres());
}

#[test]
fn a_process_that_was_stopped_for_too_long_commits_nothing() {
    zombie::judge();
}

#[test]
fn a_process_that_is_asked_to_go_hands_its_runs_over() {
    handover::judge();
}

#[test]
fn a_process_that_is_asked_to_go_under_load_leaves_nothing_behind() {
    handover::judge_under_load();
}

#[test]
fn processes_that_are_killed_at_random_do_everything_once() {
    crowd::judge();
}

#[test]
fn processes_that_commit_to_many_streams_lose_nothing() {
    storm::judge_many_streams();
}

#[test]
fn processes_that_act_on_one_stream_all_succeed() {
    storm::judge_one_stream();
}

#[test]
fn reactions_in_many_processes_handle_everything_that_is_committed_meanwhile() {
    drain::judge();
}

#[test]
fn processes_that_commit_and_react_can_be_killed_at_random() {
    drain::judge_killed_at_random();
}

#[test]
fn a_process_that_is_killed_between_handler_and_ack_leaves_no_effect_and_a_lease_that_ends() {
    drain::judge_killed_before_the_ack();
}

#[test]
fn a_process_that_is_killed_while_it_commits_has_committed_all_or_nothing() {
    drain::judge_killed_in_a_commit();
}

/// Not a test: the entry point of the child processes.
#[test]
#[ignore = "runs as a child of the tests above"]
fn child() {
    child::live();
}
