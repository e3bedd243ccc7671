//! SQL statements, by table and by operation.

use crate::{codec::Table, migrate::Migration};

macro_rules! sql {
    ($name:expr) => {
        include_str!(concat!("../../sql/sqlite/", $name, ".sql"))
    };
}

/// All migrations, in order.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "init", sql: sql!("migrations/0001_init") },
    Migration { version: 2, name: "lease", sql: sql!("migrations/0002_lease") },
    Migration { version: 3, name: "session", sql: sql!("migrations/0003_session") },
    Migration { version: 4, name: "runs", sql: sql!("migrations/0004_runs") },
    Migration { version: 5, name: "chore", sql: sql!("migrations/0005_chore") },
    Migration { version: 6, name: "serve", sql: sql!("migrations/0006_serve") },
    Migration { version: 7, name: "schedule", sql: sql!("migrations/0007_schedule") },
    Migration { version: 8, name: "chunk", sql: sql!("migrations/0008_chunk") },
    Migration { version: 9, name: "retention", sql: sql!("migrations/0009_retention") },
    Migration { version: 10, name: "snapshot", sql: sql!("migrations/0010_snapshot") },
    Migration { version: 11, name: "observe", sql: sql!("migrations/0011_observe") },
    Migration { version: 12, name: "guard", sql: sql!("migrations/0012_guard") },
    Migration { version: 13, name: "pause", sql: sql!("migrations/0013_pause") },
    Migration { version: 14, name: "tx_token", sql: sql!("migrations/0014_tx_token") },
    Migration { version: 15, name: "assigned", sql: sql!("migrations/0015_assigned") },
    Migration { version: 16, name: "lease_length", sql: sql!("migrations/0016_lease_length") },
    Migration { version: 17, name: "window", sql: sql!("migrations/0017_window") },
    Migration { version: 18, name: "turns", sql: sql!("migrations/0018_turns") },
];

/// Statements for single rows of a table.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) read: &'static str,
    pub(super) insert: &'static str,
    pub(super) update: &'static str,
    pub(super) delete: &'static str,
    pub(super) dump: &'static str,
}

macro_rules! statements {
    ($table:literal) => {
        &Statements {
            read: sql!(concat!($table, "_read")),
            insert: sql!(concat!($table, "_insert")),
            update: sql!(concat!($table, "_update")),
            delete: sql!(concat!($table, "_delete")),
            dump: sql!(concat!($table, "_dump")),
        }
    };
}

/// Returns a table's statements.
pub(super) fn of(table: Table) -> &'static Statements {
    match table {
        Table::Reply => statements!("reply"),
        Table::ApiKey => statements!("api_key"),
        Table::Chore => statements!("chore"),
        Table::Schedule => statements!("schedule"),
        Table::Gate => statements!("gate"),
        Table::Run => statements!("run"),
        Table::Session => statements!("session"),
        Table::Engine => statements!("engine"),
        Table::Stream => statements!("stream"),
        Table::Subscription => statements!("sub"),
        Table::LogHead => statements!("log_head"),
        Table::Epoch => statements!("epoch"),
        Table::Def => statements!("def"),
        Table::Event => statements!("event"),
        Table::Ended => statements!("ended"),
        Table::Step => statements!("step"),
        Table::Item => statements!("item"),
        Table::Wait => statements!("wait"),
        Table::WaitPath => statements!("wait_path"),
        Table::Signal => statements!("signal"),
        Table::Receipt => statements!("receipt"),
        Table::Log => statements!("log"),
        Table::Chunk => statements!("chunk"),
        Table::Staged => statements!("staged"),
        Table::Snapshot => statements!("snapshot"),
    }
}

pub(super) const RUN_QUEUE: &str = sql!("run_queue");
pub(super) const RUN_READY: &str = sql!("run_ready");
pub(super) const RUN_READY_NEXT: &str = sql!("only/run_ready_next");
pub(super) const RUN_DUE: &str = sql!("run_due");
pub(super) const CHORE_DUE: &str = sql!("chore_due");
pub(super) const CHORE_OF_TOPIC: &str = sql!("chore_of_topic");
pub(super) const RUN_OWNED: &str = sql!("run_owned");
pub(super) const RUN_LANE: &str = sql!("run_lane");
pub(super) const RUN_NEWEST: &str = sql!("run_newest");
pub(super) const ENDED_NEWEST: &str = sql!("ended_newest");
pub(super) const GATE_DUE: &str = sql!("gate_due");
pub(super) const GATE_PREFIX: &str = sql!("gate_prefix");
pub(super) const ENGINE_WATCHED: &str = sql!("engine_watched");
pub(super) const STEP_OF_RUN: &str = sql!("step_of_run");
pub(super) const ITEM_OF_RUN: &str = sql!("item_of_run");
pub(super) const WAIT_PATH_OF_NAME: &str = sql!("wait_path_of_name");
pub(super) const WAIT_OF_VALUE: &str = sql!("wait_of_value");
pub(super) const SIGNAL_INBOX: &str = sql!("signal_inbox");
pub(super) const RECEIPT_OF_EVENT: &str = sql!("receipt_of_event");
pub(super) const LOG_OF_STREAM: &str = sql!("log_of_stream");
pub(super) const LOG_FEED: &str = sql!("log_feed");
pub(super) const SUB_WORK: &str = sql!("sub_work");
pub(super) const SUB_OF_WORKSPACE: &str = sql!("sub_of_workspace");
pub(super) const STREAM_OF_WORKSPACE: &str = sql!("stream_of_workspace");
pub(super) const DEF_OF_WORKSPACE: &str = sql!("def_of_workspace");
pub(super) const SCHEDULE_NEXT: &str = sql!("schedule_next");
pub(super) const SCHEDULE_OF_WORKFLOW: &str = sql!("schedule_of_workflow");
pub(super) const CHUNK_OF_RUN: &str = sql!("chunk_of_run");
pub(super) const SIGNAL_OF_RUN: &str = sql!("signal_of_run");
pub(super) const EVENT_LOOSE: &str = sql!("event_loose");
pub(super) const ENDED_LOOSE: &str = sql!("ended_loose");
pub(super) const EVENT_AFTER: &str = sql!("event_after");
pub(super) const ENDED_AFTER: &str = sql!("ended_after");
pub(super) const RECEIPT_AFTER: &str = sql!("receipt_after");
pub(super) const ENGINE_BURIABLE: &str = sql!("engine_buriable");
pub(super) const LOG_FEED_BACK: &str = sql!("log_feed_back");
pub(super) const GATE_OF_RUN: &str = sql!("gate_of_run");
pub(super) const STREAM_OF_NUMBER: &str = sql!("stream_of_number");
pub(super) const SNAPSHOT_OF_STREAM: &str = sql!("snapshot_of_stream");
pub(super) const EVENT_NEWEST: &str = sql!("event_newest");
pub(super) const RECEIPT_NEWEST: &str = sql!("receipt_newest");
pub(super) const RUN_OF_EVENT: &str = sql!("run_of_event");
pub(super) const ENDED_OF_EVENT: &str = sql!("ended_of_event");
pub(super) const ITEM_OF_EVENT: &str = sql!("item_of_event");
pub(super) const RUN_COUNT: &str = sql!("run_count");
pub(super) const RUN_DRIVEN_COUNT: &str = sql!("run_driven_count");
pub(super) const RUN_PARKED_COUNT: &str = sql!("run_parked_count");
pub(super) const RUN_READY_COUNT: &str = sql!("run_ready_count");
pub(super) const RUN_QUEUE_COUNT: &str = sql!("run_queue_count");
pub(super) const REPLY_AFTER: &str = sql!("reply_after");
pub(super) const API_KEY_ALL: &str = sql!("api_key_all");
pub(super) const ENGINE_BEAT: &str = sql!("engine_beat");
pub(super) const LEASE_READ: &str = sql!("lease_read");
pub(super) const LEASE_ACQUIRE: &str = sql!("lease_acquire");
pub(super) const LEASE_RENEW: &str = sql!("lease_renew");
pub(super) const LEASE_RELEASE: &str = sql!("lease_release");

pub(super) const ENGINE_VOID: &str = sql!("only/engine_void");
pub(super) const FILE_CHECK: &str = sql!("only/file_check");
pub(super) const FILE_COPY: &str = sql!("only/file_copy");
pub(super) const FENCE_NEXT: &str = sql!("only/fence_next");
pub(super) const META_READ: &str = sql!("only/meta_read");
pub(super) const META_WRITE: &str = sql!("only/meta_write");
pub(super) const MIGRATION_CREATE: &str = sql!("only/migration_create");
pub(super) const MIGRATION_DUMP: &str = sql!("only/migration_dump");
pub(super) const MIGRATION_INSERT: &str = sql!("only/migration_insert");
pub(super) const SCHEMA_DUMP: &str = sql!("only/schema_dump");
