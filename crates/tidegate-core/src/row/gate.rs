//! The gate row: the state of one control for one key.

use std::{collections::BTreeMap, sync::Arc};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Adapted, Closed, Costs, Given, Meters, RowNumbers, Share, Tag, Turns, Workspace};
use crate::{
    flow::KeySource,
    id::{EventId, RunId, Seq},
    key::{Key, push_part, take_part},
    row::Place,
    time::Timestamp,
};

/// Class of a gate. The order is the order of spec G9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// The claim of a `dedupeId`, in the whole workspace.
    Dedupe = 10,
    /// A claim of the idempotency control.
    Idempotency = 11,
    /// The meter of `rateLimit`, which drops events.
    RateLimit = 20,
    /// The meter of a pool's `rateLimit`.
    PoolRateLimit = 21,
    /// A window of `debounce` that keeps one event.
    Debounce = 30,
    /// A buffer of `batch`.
    Batch = 31,
    /// A window of the policy `debounce`.
    Quiet = 32,
    /// A window of `debounce` that keeps all events.
    Gather = 33,
    /// One run at a time; a second run is refused, replaces it or waits.
    Singleton = 40,
    /// One run at a time per schedule.
    Schedule = 41,
    /// One run at a time over all versions.
    Handoff = 42,
    /// One request at a time per key of a flow.
    Policy = 43,
    /// A limit on runs that have not ended.
    RunLimit = 44,
    /// A pool's limit on runs that have not ended.
    PoolRunLimit = 45,
    /// The queue of runs whose first start an override pauses.
    Pause = 49,
    /// The meter of `throttle`, which delays runs.
    Throttle = 50,
    /// The meter of a pool's `throttle`.
    PoolThrottle = 51,
    /// A limit on runs being driven, for one key.
    Keyed = 60,
    /// A limit on runs being driven, for the whole workflow.
    Whole = 61,
    /// A pool's limit on runs being driven.
    PoolLimit = 62,
    /// The share of a value with waiting runs at a fair gate. Its key sorts after that of the gate,
    /// so that the gate is locked first.
    Share = 70,
}

impl Class {
    /// All classes, in lock order.
    pub const ALL: [Self; 21] = [
        Self::Dedupe,
        Self::Idempotency,
        Self::RateLimit,
        Self::PoolRateLimit,
        Self::Debounce,
        Self::Batch,
        Self::Quiet,
        Self::Gather,
        Self::Singleton,
        Self::Schedule,
        Self::Handoff,
        Self::Policy,
        Self::RunLimit,
        Self::PoolRunLimit,
        Self::Pause,
        Self::Throttle,
        Self::PoolThrottle,
        Self::Keyed,
        Self::Whole,
        Self::PoolLimit,
        Self::Share,
    ];

    /// Whether the policy of each new run decides what happens if the gate is busy. Queues at such
    /// gates are ordered only by arrival (spec policies).
    pub fn is_arbitrated(self) -> bool {
        matches!(self, Self::Schedule | Self::Policy)
    }

    /// Whether the gates belong to pools: their keys name the pool, and no app or workflow (spec L4).
    pub fn is_pooled(self) -> bool {
        matches!(
            self,
            Self::PoolRateLimit | Self::PoolRunLimit | Self::PoolThrottle | Self::PoolLimit
        )
    }

    /// Whether the gates are meters with a queue.
    pub fn is_throttle(self) -> bool {
        matches!(self, Self::Throttle | Self::PoolThrottle)
    }

    /// Whether the rows are shown as gates. A share is a part of its gate.
    pub fn is_listed(self) -> bool {
        self != Self::Share
    }

    /// Returns the first class of those whose gates a run takes in one order.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other class has an order of its own")]
    fn group(self) -> Self {
        match self {
            Self::PoolRunLimit => Self::RunLimit,
            Self::PoolThrottle => Self::Throttle,
            Self::Whole | Self::PoolLimit => Self::Keyed,
            own => own,
        }
    }

    /// Whether a fold of this class has a row for each of its events, and its run gets all of them.
    pub fn keeps_all(self) -> bool {
        matches!(self, Self::Batch | Self::Gather)
    }

    /// Returns the control's name in a definition.
    pub fn control(self) -> &'static str {
        crate::flow::control::owner(self).name
    }
}

/// Decoded gate key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The workspace.
    pub ws: Workspace,
    /// The gate's class.
    pub class: Class,
    /// The app; empty for a gate of a pool.
    pub app: String,
    /// The workflow, the flow for a policy, or the pool.
    pub name: String,
    /// Distinguishes gates of the same class: the path of the key, the kind of key or a version.
    pub slot: String,
    /// The key's value.
    pub key: Key,
}

impl Scope {
    /// Returns the position of the gate in a run's plan.
    pub fn order(&self) -> Order {
        let group = self.class.group();
        let narrow_first = matches!(group, Class::RunLimit | Class::Throttle | Class::Keyed);
        let whole = narrow_first && self.key == Key::Whole;
        Order { group, whole, pooled: self.class.is_pooled() }
    }

    /// Returns the pool that the gate belongs to; none for a gate of a workflow.
    pub fn pool(&self) -> Option<&str> {
        self.class.is_pooled().then_some(&*self.name)
    }

    /// Returns the key for display: for a schedule's gate, the schedule.
    pub fn shown_key(&self) -> String {
        match &self.key {
            _ if self.class == Class::Schedule => self.slot.clone(),
            Key::Values(_) => self.key.show(&KeySource::names_in(&self.slot)),
            Key::Whole | Key::Missing | Key::Value(_) => self.key.to_string(),
        }
    }
}

/// Position of a gate in the order in which a run takes its gates. Gates in one position are taken
/// by key. Locks are taken by key alone (spec L5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    group: Class,
    /// Within a group narrow gates come before wide ones, so that a run that waits for its key
    /// holds nothing that runs with other keys need.
    whole: bool,
    /// Gates of the workflow itself come before those of pools, which more runs share.
    pooled: bool,
}

/// Encoded gate key: workspace first, tagged, injective, the same on every store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateKey(Arc<[u8]>);

impl GateKey {
    /// Encodes a scope.
    pub fn new(scope: &Scope) -> Self {
        let mut bytes = Vec::with_capacity(64);
        push_part(&mut bytes, scope.ws.as_bytes());
        bytes.push(scope.class as u8);
        push_part(&mut bytes, scope.app.as_bytes());
        push_part(&mut bytes, scope.name.as_bytes());
        push_part(&mut bytes, scope.slot.as_bytes());
        scope.key.encode_into(&mut bytes);
        Self(bytes.into())
    }

    /// Returns the key of the share of one value of `fair` at this gate; none if this is not the
    /// key of a gate.
    pub fn share(&self, value: &Key) -> Option<GateKey> {
        Some(FairGate::new(self)?.share(value))
    }

    /// Returns the common prefix of the keys of all gates of one class.
    pub fn class_prefix(ws: &Workspace, class: Class) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        push_part(&mut bytes, ws.as_bytes());
        bytes.push(class as u8);
        bytes
    }

    /// Returns the common prefix of the keys of all gates of one class and workflow.
    pub fn prefix(ws: &Workspace, class: Class, app: &str, name: &str) -> Vec<u8> {
        let mut bytes = Self::class_prefix(ws, class);
        push_part(&mut bytes, app.as_bytes());
        push_part(&mut bytes, name.as_bytes());
        bytes
    }

    /// Wraps the bytes of a stored key.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the key; `None` for bytes that are not a gate key.
    pub fn scope(&self) -> Option<Scope> {
        let text = |part: &[u8]| std::str::from_utf8(part).ok().map(str::to_owned);
        let (ws, rest) = take_part(&self.0)?;
        let (class, rest) = rest.split_first()?;
        let (app, rest) = take_part(rest)?;
        let (name, rest) = take_part(rest)?;
        let (slot, rest) = take_part(rest)?;
        let (key, _) = Key::decode(rest)?;
        Some(Scope {
            ws: text(ws)?.into(),
            class: Class::ALL.into_iter().find(|known| *known as u8 == *class)?,
            app: text(app)?,
            name: text(name)?,
            slot: text(slot)?,
            key,
        })
    }

    /// Whether the key belongs to a workspace. Does not decode the other parts of the key.
    pub fn is_of(&self, ws: &str) -> bool {
        take_part(&self.0).is_some_and(|(part, _)| part == ws.as_bytes())
    }

    /// Whether a run takes this gate before another one.
    pub fn comes_before(&self, other: &Self) -> bool {
        let order = |key: &Self| key.scope().map(|scope| scope.order());
        (order(self), self) < (order(other), other)
    }

    /// Returns the class, read without decoding the rest.
    pub fn class(&self) -> Option<Class> {
        let (_, rest) = take_part(&self.0)?;
        let class = rest.first()?;
        Class::ALL.into_iter().find(|known| *known as u8 == *class)
    }
}

/// Decoded key of a gate with `fair`, and what the keys of its shares have in common.
#[derive(Debug)]
pub struct FairGate {
    /// The decoded key.
    pub scope: Scope,
    shares: Vec<u8>,
}

impl FairGate {
    /// Decodes a gate key; `None` for bytes that are not one.
    pub fn new(gate: &GateKey) -> Option<Self> {
        let scope = gate.scope()?;
        let mut shares = GateKey::prefix(&scope.ws, Class::Share, &scope.app, &scope.name);
        // The gate is named by a digest, because its own key may have the maximum size.
        let slot = HEXLOWER.encode(&Sha256::digest(gate.as_bytes())[..16]);
        push_part(&mut shares, slot.as_bytes());
        Some(Self { scope, shares })
    }

    /// Returns the key of the share of one value.
    pub fn share(&self, value: &Key) -> GateKey {
        let mut bytes = self.shares.clone();
        value.encode_into(&mut bytes);
        GateKey(bytes.into())
    }
}

impl Serialize for GateKey {
    /// Writes the key in hex, because it may contain any bytes and the form is JSON.
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&HEXLOWER.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for GateKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
        let unread = |_| serde::de::Error::custom(format!("`{hex}` is not a gate key in hex"));
        bytes.map(|bytes| Self(bytes.into())).map_err(unread)
    }
}

/// State of one control for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The gate's key.
    pub key: GateKey,
    /// The gate's number, by which queued runs refer to it.
    pub id: Seq,
    /// The latest time at which a decision has used this gate. It never moves back.
    pub at: Timestamp,
    /// When the sweep has to process the gate.
    pub due: Option<Timestamp>,
    /// The state.
    pub state: GateState,
}

impl Gate {
    /// Returns the event that the run of an open window will have, or the first event of a buffer.
    /// The other events of a buffer have item rows, so that adding an event changes no index of the
    /// gate row.
    pub fn event(&self) -> Option<Seq> {
        match &self.state {
            GateState::Fold(fold) if self.key.class().is_some_and(Class::keeps_all) => {
                Some(fold.first.seq)
            }
            GateState::Fold(fold) => Some(fold.last.seq),
            GateState::Slots(_)
            | GateState::Turns(_)
            | GateState::Meter(_)
            | GateState::Claim(_)
            | GateState::Share(_) => None,
        }
    }
}

/// State of a gate, by primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateState {
    /// The holders and the queue of a gate in the narrow sense.
    Slots(Slots),
    /// The times when the next arrival conforms.
    Meter(Meters),
    /// A meter with a queue.
    Turns(Turns),
    /// A window or a buffer.
    Fold(Fold),
    /// A claim, with the event that took it.
    Claim(Claim),
    /// A value with waiting runs at a fair gate.
    Share(Share),
}

impl GateState {
    /// Returns the tag of the latest service of a gate at which values of `fair` wait; none if none
    /// waits.
    pub fn served(&self) -> Option<Tag> {
        match self {
            Self::Slots(slots) => slots.served,
            Self::Turns(turns) => turns.served,
            Self::Meter(_) | Self::Fold(_) | Self::Claim(_) | Self::Share(_) => None,
        }
    }

    /// Sets the tag of the latest service.
    pub(crate) fn set_served(&mut self, tag: Option<Tag>) {
        match self {
            Self::Slots(slots) => slots.served = tag,
            Self::Turns(turns) => turns.served = tag,
            Self::Meter(_) | Self::Fold(_) | Self::Claim(_) | Self::Share(_) => {}
        }
    }

    /// Returns the numbers of the gate's limits that came from the data of an event.
    pub fn given(&self) -> Option<&Given> {
        match self {
            Self::Slots(slots) => slots.given.as_ref(),
            Self::Turns(turns) => turns.meters.given.as_ref(),
            Self::Meter(meters) => meters.given.as_ref(),
            Self::Fold(_) | Self::Claim(_) | Self::Share(_) => None,
        }
    }

    /// Returns the value of an adaptive limit; none if it has not changed yet.
    pub fn adapted(&self) -> Option<&Adapted> {
        if let Self::Slots(slots) = self { slots.adapted.as_ref() } else { None }
    }

    /// Returns the numbers of the gate's limits that are in the row.
    pub fn numbers(&self) -> RowNumbers<'_> {
        RowNumbers { given: self.given(), adapted: self.adapted() }
    }

    /// Takes the numbers of a run or an event over, unless a later event has set others.
    pub(crate) fn give(&mut self, own: Option<&Given>) {
        let newest = Given::newest(self.given(), own).cloned();
        match self {
            Self::Slots(slots) => slots.given = newest,
            Self::Turns(turns) => turns.meters.given = newest,
            Self::Meter(meters) => meters.given = newest,
            Self::Fold(_) | Self::Claim(_) | Self::Share(_) => {}
        }
    }
}

/// Gate in the narrow sense. It has the list of its holders, not a counter of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Slots {
    /// The runs that hold the gate.
    pub holders: Vec<Hold>,
    /// The position of the first run in the queue, or an earlier one; none if the queue is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Place>,
    /// The cost of the run at that position.
    #[serde(skip_serializing_if = "Costs::is_one")]
    pub wanted: Costs,
    /// The number of runs in the queue. None if the queue is empty, if no limit bounds it, or if
    /// runs were waiting when the bound was added and it was not checked since (spec L19).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
    /// The tag of the latest service while values of `fair` wait (spec L16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<Tag>,
    /// Folds that could not flush because of a holder or of a full queue, and flush when it ends or
    /// has room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folds: Vec<GateKey>,
    /// The release to which older queued runs move when they are admitted, if they have not started
    /// (`supersede`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<i64>,
    /// The closing by a run, also after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The limit, if it came from the data of an event (spec L12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// The value of the limit, if it is adaptive and has changed (spec L28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapted: Option<Adapted>,
}

impl Slots {
    /// Returns the sum of the costs inside.
    pub fn used(&self) -> u64 {
        self.holders.iter().map(|hold| u64::from(hold.cost)).sum()
    }

    /// Whether a run of this cost may enter. An empty gate takes a run of any cost: the limit may
    /// have been lowered while the run was queued.
    pub fn fits(&self, cost: u32, limit: u32) -> bool {
        self.holders.is_empty() || self.used() + u64::from(cost) <= u64::from(limit)
    }
}

/// Hold of one run on a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The run.
    pub run: RunId,
    /// Whether the run is cancelled and its worker has not confirmed the stop yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// How many units of the limit the run takes.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u32,
}

impl Hold {
    /// Creates the hold of a run that takes `cost` units.
    pub fn new(run: RunId, cost: u32) -> Self {
        Self { run, draining: false, cost }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(cost: &u32) -> bool {
    *cost == 1
}

/// A window, which keeps one event, or a fold that keeps all events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent properties")]
pub struct Fold {
    /// The run that will get the folded events; while [`Fold::only_led`], the run of the event that
    /// opened the window.
    pub run: RunId,
    /// The first event.
    pub first: EventId,
    /// The event that a window keeps: the last one accepted, or the first.
    pub last: EventId,
    /// The runs that must end before the fold's run starts. Ended ones may be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<RunId>,
    /// When the first event arrived.
    pub opened: Timestamp,
    /// When the fold is flushed if no further event arrives.
    pub deadline: Timestamp,
    /// Number of events in the fold.
    pub count: u32,
    /// Number of payload bytes in the fold.
    pub bytes: u64,
    /// The sums of the events' costs, by their path (batch).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, u32>,
    /// Parts that became full while the fold was held: each becomes its own run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<Part>,
    /// Whether the fold is due but held: its run would be refused while another run holds a gate.
    /// It accepts events until that run ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether a user has paused the fold. It accepts events, and is not flushed until it is
    /// resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Whether the fold's run exists and has not started. Later events still join it (policy
    /// `debounce`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fired: bool,
    /// Whether the event that opened the window made a run at once (`edge`). The fold does not
    /// count this event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub led: bool,
}

/// Full part of a held buffer; it takes no more events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The run that will have these events.
    pub run: RunId,
    /// The part's first event.
    pub first: EventId,
    /// Number of events in the part.
    pub count: u32,
    /// The sums of the costs of the part's events, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, u32>,
    /// The runs after which the part's run starts, as [`Fold::after`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<RunId>,
}

/// Claim of a key. The first event with the key has the claim until it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The event that took the claim.
    pub event: EventId,
    /// The run that has the claim, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When the claim expires.
    pub until: Timestamp,
}
