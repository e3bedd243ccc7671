//! Lanes of the load: each lane is a workflow or flow with one control, and the rules that its
//! effects must follow.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

/// Kind of ingress through which requests of a lane are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `POST /events`, with a `dedupeId`.
    Event,
    /// `POST /flows/{lane}/actions/act`, with an `Idempotency-Key`. The request's key is the
    /// session.
    Action,
    /// `POST /webhooks/{lane}/hook`, signed. The delivery id is the key of the control
    /// `idempotency`.
    Webhook,
    /// `POST /flows/{lane}/sessions/{key}/messages`, with an `Idempotency-Key`.
    Chat,
    /// No requests: a schedule starts the runs.
    Schedule,
    /// `POST /streams/{key}/events` with `expectedVersion`, and an `Idempotency-Key`.
    Stream,
    /// `PATCH /sessions/{lane}/{key}`: an append, with an `Idempotency-Key`.
    Session,
}

/// How several requests of one key are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Not merged: each request has its own run.
    None,
    /// One run, with the last request.
    Last,
    /// One run, with all requests.
    All,
}

/// A lane of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    /// Controls of the workflow, as TOML.
    pub(crate) controls: &'static str,
    /// Number of keys. The next field is the number of clients per key.
    pub(crate) keys: u64,
    pub(crate) clients: u64,
    /// Mean time between two requests of a client, in milliseconds.
    pub(crate) pace: u64,
    /// Maximum number of concurrent calls of different runs for one key.
    pub(crate) per_key: usize,
    /// Maximum number of concurrent calls of different runs for the lane.
    pub(crate) overall: usize,
    /// Whether runs of one key must start in the order in which their requests were answered.
    pub(crate) ordered: bool,
    /// Minimum time between the first starts of runs of one key, in microseconds.
    pub(crate) gap: i64,
    /// Maximum rate of admitted runs of one key: their number per this many microseconds.
    pub(crate) rate: Option<(i64, i64)>,
    pub(crate) fold: Fold,
    /// Whether the lane's control itself may cancel a run.
    pub(crate) cancels: bool,
    /// Whether a key may have at most one run in the whole round.
    pub(crate) once: bool,
}

const ANY: usize = usize::MAX;

const fn lane(name: &'static str, way: Way, controls: &'static str) -> Lane {
    Lane {
        name,
        way,
        controls,
        keys: 2,
        clients: 1,
        pace: 700,
        per_key: ANY,
        overall: ANY,
        ordered: false,
        gap: 0,
        rate: None,
        fold: Fold::None,
        cancels: false,
        once: false,
    }
}

/// Retry settings for refused calls: enough attempts that no run fails because of them.
const RETRY: &str = "retry = { maxAttempts = 20, backoffMs = 50 }";

/// Every lane.
pub(crate) const LANES: [Lane; 20] = [
    Lane {
        clients: 3,
        per_key: 2,
        overall: 3,
        ..lane("sync", Way::Event, "concurrency = [{ limit = 2, key = 'key' }, { limit = 3 }]")
    },
    Lane {
        clients: 2,
        per_key: 1,
        ordered: true,
        keys: 3,
        ..lane("line", Way::Event, "concurrency = { limit = 1, key = 'key', span = 'run' }")
    },
    Lane {
        clients: 2,
        gap: 100_000,
        ..lane("mail", Way::Event, "throttle = { limit = 10, perMs = 1000, key = 'key' }")
    },
    Lane {
        clients: 2,
        pace: 400,
        rate: Some((3, 2_000_000)),
        ..lane("audit", Way::Event, "rateLimit = { limit = 3, perMs = 2000, key = 'key' }")
    },
    Lane {
        pace: 250,
        fold: Fold::Last,
        ..lane("index", Way::Event, "debounce = { periodMs = 300, key = 'key', maxWaitMs = 1200 }")
    },
    Lane {
        pace: 200,
        clients: 2,
        fold: Fold::All,
        ..lane("digest", Way::Event, "batch = { maxSize = 4, timeoutMs = 600, key = 'key' }")
    },
    Lane {
        clients: 2,
        overall: 2,
        ..lane("urgent", Way::Event, "priority = { shiftMs = 2000 }\nconcurrency = { limit = 2 }")
    },
    Lane {
        cancels: true,
        per_key: 1,
        ..lane("build", Way::Event, "singleton = { mode = 'cancel', key = 'key' }")
    },
    Lane {
        pace: 300,
        per_key: 1,
        ..lane("refresh", Way::Event, "singleton = { mode = 'skip', key = 'key' }")
    },
    Lane {
        keys: 1,
        clients: 2,
        once: true,
        ..lane("pay", Way::Event, "idempotency = { key = 'payment', periodMs = 3600000 }")
    },
    Lane {
        per_key: 1,
        ..lane(
            "agent",
            Way::Event,
            "handoff = { type = 'keyed', keyField = 'key', onNewVersion = 'drain' }",
        )
    },
    Lane {
        per_key: 1,
        cancels: true,
        ..lane(
            "poller",
            Way::Event,
            "handoff = { type = 'keyed', keyField = 'key', onNewVersion = 'supersede' }",
        )
    },
    Lane {
        keys: 3,
        pace: 400,
        per_key: 1,
        ordered: true,
        ..lane("queue", Way::Action, "concurrency = 'queue'")
    },
    Lane { clients: 2, per_key: 1, ..lane("reject", Way::Action, "concurrency = 'reject'") },
    Lane { per_key: 1, cancels: true, ..lane("restart", Way::Action, "concurrency = 'restart'") },
    Lane {
        pace: 250,
        per_key: 1,
        fold: Fold::Last,
        ..lane(
            "suggest",
            Way::Action,
            "concurrency = { policy = 'debounce', periodMs = 300, maxWaitMs = 1200 }",
        )
    },
    Lane {
        once: true,
        ..lane("hook", Way::Webhook, "idempotency = { key = 'metadata.webhook.deliveryId' }")
    },
    Lane {
        clients: 3,
        pace: 500,
        per_key: 1,
        ordered: true,
        ..lane("chat", Way::Chat, "concurrency = 'queue'")
    },
    Lane { clients: 2, ..lane("ledger", Way::Stream, "") },
    lane("notes", Way::Session, ""),
];

/// Lane of the schedule. Its period is `CLOCK_SECONDS`.
pub(crate) const CLOCK: Lane =
    Lane { keys: 0, per_key: 1, ordered: true, ..lane("clock", Way::Schedule, "") };
pub(crate) const CLOCK_SECONDS: u64 = 2;

/// Suffix of the lane's name in calls that append a message of a [`Way::Chat`] lane.
pub(crate) const APPEND: &str = "/append";

/// Secret with which webhook deliveries are signed.
pub(crate) const HOOK_SECRET: &str = "storm";

/// Returns the lane with this name.
pub(crate) fn find(name: &str) -> Option<&'static Lane> {
    static CLOCKED: Lane = CLOCK;
    LANES.iter().find(|lane| lane.name == name).or((name == CLOCK.name).then_some(&CLOCKED))
}

/// Returns the lanes whose runs call the service.
pub(crate) fn called() -> impl Iterator<Item = &'static Lane> {
    LANES.iter().filter(|lane| !matches!(lane.way, Way::Stream | Way::Session))
}

/// Revision of each lane's definition. A deploy raises it.
pub(crate) type Revisions = BTreeMap<&'static str, u64>;

/// Returns the definition of a lane as TOML: a `[[workflow]]` or a `[[flow]]`.
fn definition(lane: &Lane, service: &str, revision: u64) -> String {
    let Lane { name, controls, .. } = lane;
    let url = format!("url = '{service}/{name}?revision={revision}'");
    match lane.way {
        Way::Event => format!(
            "[[workflow]]\nname = '{name}'\ntriggers = ['{name}']\n{url}\n{RETRY}\n{controls}\n"
        ),
        Way::Action | Way::Webhook => {
            let mut flow = format!("[[flow]]\nname = '{name}'\n[flow.actions.act]\n{url}\n");
            let _ = writeln!(flow, "{RETRY}\n{controls}");
            if lane.way == Way::Webhook {
                flow.push_str(
                    "[flow.webhooks.hook]\naction = 'act'\nscheme = 'hmac'\n\
                     secretEnv = 'HOOK_SECRET'\n",
                );
            }
            flow
        }
        Way::Chat => format!(
            "[[flow]]\nname = '{name}'\nchat = {{ append = 'append', respond = 'respond' }}\n\
             [flow.actions.append]\nurl = '{service}/{name}{APPEND}?revision={revision}'\n{RETRY}\n\
             concurrency = 'allow'\n[flow.actions.respond]\n{url}\n{RETRY}\n{controls}\n"
        ),
        Way::Schedule => format!(
            "[[flow]]\nname = '{name}'\n[flow.actions.act]\n{url}\n{RETRY}\n\
             [flow.schedules.tick]\naction = 'act'\ncron = '*/{CLOCK_SECONDS} * * * * *'\n\
             onOverlap = 'queue'\n"
        ),
        Way::Stream | Way::Session => String::new(),
    }
}

/// Returns the complete config file.
pub(crate) fn config(service: &str, revisions: &Revisions) -> String {
    let revision = |lane: &Lane| revisions.get(lane.name).copied().unwrap_or(1);
    let all = LANES.iter().chain([&CLOCK]);
    all.map(|lane| definition(lane, service, revision(lane))).collect()
}

/// Returns the definition of one workflow as the body of `PUT /workflows/{name}`.
pub(crate) fn body(lane: &Lane, service: &str, revision: u64) -> Value {
    let mut file: Value = toml::from_str(&definition(lane, service, revision)).unwrap();
    let mut workflow = file["workflow"][0].take();
    workflow.as_object_mut().unwrap().remove("name");
    workflow
}
