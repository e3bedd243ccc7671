//! SQL statements, one per file.

use crate::{codec::Table, migrate::Migration};

/// Migrations of the schema.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "init",
        sql: include_str!("../../sql/postgres/migrations/0001_init.sql"),
    },
    Migration {
        version: 2,
        name: "lease",
        sql: include_str!("../../sql/postgres/migrations/0002_lease.sql"),
    },
    Migration {
        version: 3,
        name: "session",
        sql: include_str!("../../sql/postgres/migrations/0003_session.sql"),
    },
    Migration {
        version: 4,
        name: "runs",
        sql: include_str!("../../sql/postgres/migrations/0004_runs.sql"),
    },
    Migration {
        version: 5,
        name: "chore",
        sql: include_str!("../../sql/postgres/migrations/0005_chore.sql"),
    },
    Migration {
        version: 6,
        name: "serve",
        sql: include_str!("../../sql/postgres/migrations/0006_serve.sql"),
    },
    Migration {
        version: 7,
        name: "schedule",
        sql: include_str!("../../sql/postgres/migrations/0007_schedule.sql"),
    },
    Migration {
        version: 8,
        name: "chunk",
        sql: include_str!("../../sql/postgres/migrations/0008_chunk.sql"),
    },
    Migration {
        version: 9,
        name: "retention",
        sql: include_str!("../../sql/postgres/migrations/0009_retention.sql"),
    },
    Migration {
        version: 10,
        name: "snapshot",
        sql: include_str!("../../sql/postgres/migrations/0010_snapshot.sql"),
    },
    Migration {
        version: 11,
        name: "observe",
        sql: include_str!("../../sql/postgres/migrations/0011_observe.sql"),
    },
    Migration {
        version: 12,
        name: "guard",
        sql: include_str!("../../sql/postgres/migrations/0012_guard.sql"),
    },
    Migration {
        version: 13,
        name: "pause",
        sql: include_str!("../../sql/postgres/migrations/0013_pause.sql"),
    },
    Migration {
        version: 14,
        name: "tx_token",
        sql: include_str!("../../sql/postgres/migrations/0014_tx_token.sql"),
    },
    Migration {
        version: 15,
        name: "assigned",
        sql: include_str!("../../sql/postgres/migrations/0015_assigned.sql"),
    },
    Migration {
        version: 16,
        name: "lease_length",
        sql: include_str!("../../sql/postgres/migrations/0016_lease_length.sql"),
    },
    Migration {
        version: 17,
        name: "window",
        sql: include_str!("../../sql/postgres/migrations/0017_window.sql"),
    },
    Migration {
        version: 18,
        name: "turns",
        sql: include_str!("../../sql/postgres/migrations/0018_turns.sql"),
    },
];

// Control statements are constants: they have no parameters and belong to no table.
pub(super) const BEGIN: &str = "begin isolation level read committed read write";
pub(super) const BEGIN_READ: &str = "begin isolation level repeatable read read only";
pub(super) const COMMIT: &str = "commit";
// COMMIT of a failed transaction succeeds and rolls back (spec R11). A statement before it in the
// same message fails there, and COMMIT is not run: for connections that do not see the answer's
// tag.
pub(super) const COMMIT_IF_INTACT: &str = "select; commit";
pub(super) const ROLLBACK: &str = "rollback";
// A step may have changed settings of the session: they are reset for the session.
pub(super) const CONSTRAINTS_NOW: &str = "set constraints all immediate";
pub(super) const SESSION_RESET: &str =
    "set transaction read write; reset session authorization; reset all";
pub(super) const DEALLOCATE: &str = "deallocate all";
pub(super) const ROLLBACK_AND_DEALLOCATE: &str = "rollback; deallocate all";
pub(super) const SAVEPOINT: &str = "savepoint tidegate";
pub(super) const BACK_TO_SAVEPOINT: &str = "rollback to savepoint tidegate";
/// Constants of several statements: each is sent by itself.
pub(super) const SCRIPTS: [&str; 2] = [SESSION_RESET, ROLLBACK_AND_DEALLOCATE];
pub(super) const CONTROL: [&str; 11] = [
    BEGIN,
    BEGIN_READ,
    COMMIT,
    ROLLBACK,
    WAKE_LISTEN,
    CONSTRAINTS_NOW,
    SESSION_RESET,
    DEALLOCATE,
    ROLLBACK_AND_DEALLOCATE,
    SAVEPOINT,
    BACK_TO_SAVEPOINT,
];

macro_rules! statements {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(pub(super) const $name: &str =
            include_str!(concat!("../../sql/postgres/", $file, ".sql"));)*
    };
}

statements!(
    RUN_QUEUE = "run_queue",
    RUN_READY = "run_ready",
    GATE_DUE = "gate_due",
    RUN_DUE = "run_due",
    CHORE_DUE = "chore_due",
    CHORE_OF_TOPIC = "chore_of_topic",
    RUN_OWNED = "run_owned",
    RUN_LANE = "run_lane",
    RUN_NEWEST = "run_newest",
    ENDED_NEWEST = "ended_newest",
    ENGINE_WATCHED = "engine_watched",
    STEP_OF_RUN = "step_of_run",
    ITEM_OF_RUN = "item_of_run",
    WAIT_PATH_OF_NAME = "wait_path_of_name",
    WAIT_OF_VALUE = "wait_of_value",
    SIGNAL_INBOX = "signal_inbox",
    RECEIPT_OF_EVENT = "receipt_of_event",
    GATE_PREFIX = "gate_prefix",
    LOG_OF_STREAM = "log_of_stream",
    LOG_FEED = "log_feed",
    SUB_WORK = "sub_work",
    SUB_OF_WORKSPACE = "sub_of_workspace",
    STREAM_OF_WORKSPACE = "stream_of_workspace",
    DEF_OF_WORKSPACE = "def_of_workspace",
    SCHEDULE_NEXT = "schedule_next",
    SCHEDULE_OF_WORKFLOW = "schedule_of_workflow",
    CHUNK_OF_RUN = "chunk_of_run",
    SIGNAL_OF_RUN = "signal_of_run",
    EVENT_LOOSE = "event_loose",
    ENDED_LOOSE = "ended_loose",
    EVENT_AFTER = "event_after",
    ENDED_AFTER = "ended_after",
    RECEIPT_AFTER = "receipt_after",
    ENGINE_BURIABLE = "engine_buriable",
    LOG_FEED_BACK = "log_feed_back",
    STREAM_OF_NUMBER = "stream_of_number",
    GATE_OF_RUN = "gate_of_run",
    SNAPSHOT_OF_STREAM = "snapshot_of_stream",
    EVENT_NEWEST = "event_newest",
    RECEIPT_NEWEST = "receipt_newest",
    RUN_OF_EVENT = "run_of_event",
    ENDED_OF_EVENT = "ended_of_event",
    ITEM_OF_EVENT = "item_of_event",
    RUN_COUNT = "run_count",
    RUN_DRIVEN_COUNT = "run_driven_count",
    RUN_PARKED_COUNT = "run_parked_count",
    RUN_READY_COUNT = "run_ready_count",
    RUN_QUEUE_COUNT = "run_queue_count",
    REPLY_AFTER = "reply_after",
    API_KEY_ALL = "api_key_all",
    ENGINE_BEAT = "engine_beat",
    LEASE_READ = "lease_read",
    LEASE_ACQUIRE = "lease_acquire",
    LEASE_RENEW = "lease_renew",
    LEASE_RELEASE = "lease_release",
    RUN_LOCK = "only/run_lock",
    RUN_QUEUE_ORDER = "only/run_queue_order",
    RUN_READY_LOCK = "only/run_ready_lock",
    SUB_WORK_LOCK = "only/sub_work_lock",
    LATCH_LOCK = "only/latch_lock",
    TX_SETTINGS = "only/tx_settings",
    TX_STAMP = "only/tx_stamp",
    TX_TOKEN_OPEN = "only/tx_token_open",
    TX_TOKEN_WRITE = "only/tx_token_write",
    TX_TOKEN_CLOSE = "only/tx_token_close",
    STEP_BEGIN = "only/step_begin",
    SESSION_SETTINGS = "only/session_settings",
    SERVER_CHECK = "only/server_check",
    CLOCK_READ = "only/clock_read",
    WAKE_SEND = "only/wake_send",
    WAKE_LISTEN = "only/wake_listen",
    SCHEMA_NAME = "only/schema_name",
    SCHEMA_CREATE = "only/schema_create",
    MIGRATION_TABLE = "only/migration_table",
    MIGRATION_READ = "only/migration_read",
    MIGRATION_INSERT = "only/migration_insert",
);

macro_rules! by_table {
    ($(#[$doc:meta])* $name:ident, $suffix:literal) => {
        $(#[$doc])*
        pub(super) fn $name(table: Table) -> &'static str {
            macro_rules! file {
                ($table:literal) => {
                    include_str!(concat!("../../sql/postgres/", $table, $suffix, ".sql"))
                };
            }
            match table {
                Table::Reply => file!("reply"),
                Table::ApiKey => file!("api_key"),
                Table::Chore => file!("chore"),
                Table::Schedule => file!("schedule"),
                Table::Gate => file!("gate"),
                Table::Run => file!("run"),
                Table::Session => file!("session"),
                Table::Engine => file!("engine"),
                Table::Stream => file!("stream"),
                Table::Subscription => file!("sub"),
                Table::LogHead => file!("log_head"),
                Table::Epoch => file!("epoch"),
                Table::Def => file!("def"),
                Table::Event => file!("event"),
                Table::Ended => file!("ended"),
                Table::Step => file!("step"),
                Table::Item => file!("item"),
                Table::Wait => file!("wait"),
                Table::WaitPath => file!("wait_path"),
                Table::Signal => file!("signal"),
                Table::Receipt => file!("receipt"),
                Table::Log => file!("log"),
                Table::Chunk => file!("chunk"),
                Table::Staged => file!("staged"),
                Table::Snapshot => file!("snapshot"),
            }
        }
    };
}

by_table!(
    /// Reads rows by key.
    read,
    "_read"
);
by_table!(
    /// Inserts rows.
    insert,
    "_insert"
);
by_table!(
    /// Updates all columns of rows.
    update,
    "_update"
);
by_table!(
    /// Deletes rows by key.
    delete,
    "_delete"
);
by_table!(
    /// Reads all rows.
    dump,
    "_dump"
);

/// Locks rows by key; `None` for a table whose rows are not locked.
///
/// Runs are locked together with the heads of queues, by [`RUN_LOCK`].
pub(super) fn lock(table: Table) -> Option<&'static str> {
    match table {
        Table::Reply => Some(include_str!("../../sql/postgres/only/reply_lock.sql")),
        Table::ApiKey => Some(include_str!("../../sql/postgres/only/api_key_lock.sql")),
        Table::Chore => Some(include_str!("../../sql/postgres/only/chore_lock.sql")),
        Table::Schedule => Some(include_str!("../../sql/postgres/only/schedule_lock.sql")),
        Table::Gate => Some(include_str!("../../sql/postgres/only/gate_lock.sql")),
        Table::Session => Some(include_str!("../../sql/postgres/only/session_lock.sql")),
        Table::Engine => Some(include_str!("../../sql/postgres/only/engine_lock.sql")),
        Table::Stream => Some(include_str!("../../sql/postgres/only/stream_lock.sql")),
        Table::Subscription => Some(include_str!("../../sql/postgres/only/sub_lock.sql")),
        Table::LogHead => Some(include_str!("../../sql/postgres/only/log_head_lock.sql")),
        Table::Run
        | Table::Epoch
        | Table::Def
        | Table::Event
        | Table::Ended
        | Table::Step
        | Table::Item
        | Table::Wait
        | Table::WaitPath
        | Table::Signal
        | Table::Receipt
        | Table::Log
        | Table::Chunk
        | Table::Staged
        | Table::Snapshot => None,
    }
}
