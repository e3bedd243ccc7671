//! The gate row: what one control remembers for one key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    id::{EventId, RunId, Seq},
    key::{Key, push_part, take_part},
    row::Place,
    time::Timestamp,
};

/// What kind of thing a gate row is. The order is the order of spec G9 and of locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// A `dedupeId` of the workspace.
    Dedupe = 10,
    /// A claim of the idempotency control.
    Idempotency = 11,
    /// A meter that drops.
    RateLimit = 20,
    /// A window.
    Debounce = 30,
    /// A buffer.
    Batch = 31,
    /// The window of the policy `debounce`.
    Quiet = 32,
    /// One run at a time, refusing or replacing.
    Singleton = 40,
    /// One run at a time of a schedule.
    Schedule = 41,
    /// One run at a time between versions.
    Handoff = 42,
    /// One request at a time of a flow's key.
    Policy = 43,
    /// A limit on runs that have not ended.
    RunLimit = 44,
    /// A meter that delays.
    Throttle = 50,
    /// A limit on runs being driven, for one key.
    Keyed = 60,
    /// A limit on runs being driven, for the whole workflow.
    Whole = 61,
}

impl Class {
    /// All classes, in lock order.
    pub const ALL: [Self; 14] = [
        Self::Dedupe,
        Self::Idempotency,
        Self::RateLimit,
        Self::Debounce,
        Self::Batch,
        Self::Quiet,
        Self::Singleton,
        Self::Schedule,
        Self::Handoff,
        Self::Policy,
        Self::RunLimit,
        Self::Throttle,
        Self::Keyed,
        Self::Whole,
    ];

    /// Whether every newcomer's own policy says what it does when the gate is busy. Others may
    /// queue there, and do so by arrival alone (spec policies).
    pub fn is_arbitrated(self) -> bool {
        matches!(self, Self::Schedule | Self::Policy)
    }

    /// The control that a user knows it by.
    pub fn control(self) -> &'static str {
        crate::flow::control::owner(self).name
    }
}

/// What a gate key says when it is taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The workspace.
    pub ws: Workspace,
    /// What kind of gate.
    pub class: Class,
    /// The app.
    pub app: String,
    /// The workflow, or the flow for a policy.
    pub name: String,
    /// Which of several alike: the key's path, a key kind or a version.
    pub slot: String,
    /// The key's value.
    pub key: Key,
}

impl Scope {
    /// The key as people read it: that of a schedule's gate is the schedule.
    pub fn shown_key(&self) -> String {
        if self.class == Class::Schedule { self.slot.clone() } else { self.key.to_string() }
    }
}

/// The bytes that name a gate: workspace first, tagged, injective, the same on every store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateKey(Arc<[u8]>);

impl GateKey {
    /// The bytes for a scope.
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

    /// What the keys of all gates of one kind begin with.
    pub fn class_prefix(ws: &Workspace, class: Class) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        push_part(&mut bytes, ws.as_bytes());
        bytes.push(class as u8);
        bytes
    }

    /// What the keys of all gates of one kind and workflow begin with.
    pub fn prefix(ws: &Workspace, class: Class, app: &str, name: &str) -> Vec<u8> {
        let mut bytes = Self::class_prefix(ws, class);
        push_part(&mut bytes, app.as_bytes());
        push_part(&mut bytes, name.as_bytes());
        bytes
    }

    /// A key that a store has kept.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes the key apart; `None` for bytes that are not a gate's key.
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

    /// Whether it is of a workspace, read without taking the rest apart.
    pub fn is_of(&self, ws: &str) -> bool {
        take_part(&self.0).is_some_and(|(part, _)| part == ws.as_bytes())
    }

    /// The class, read without taking the rest apart.
    pub fn class(&self) -> Option<Class> {
        let (_, rest) = take_part(&self.0)?;
        let class = rest.first()?;
        Class::ALL.into_iter().find(|known| *known as u8 == *class)
    }
}

impl Serialize for GateKey {
    /// In hex: a body is JSON, and a key may hold any bytes.
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = String::with_capacity(self.0.len() * 2);
        for byte in &*self.0 {
            hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
            hex.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        to.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for GateKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|n| u8::try_from(n).ok());
        let byte = |two: &[u8]| match two {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        bytes
            .map(|bytes| Self(bytes.into()))
            .ok_or_else(|| serde::de::Error::custom(format!("`{hex}` is not a gate key in hex")))
    }
}

/// One control's memory for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub key: GateKey,
    /// Its number, by which waiting runs point at it.
    pub id: Seq,
    /// The latest moment that a decision on it has used; never moves back.
    pub at: Timestamp,
    /// When the sweep has to look at it.
    pub due: Option<Timestamp>,
    /// What it remembers.
    pub state: GateState,
}

impl Gate {
    /// The event that an open window will fire with, or that a buffer begins with: the others of a
    /// buffer are filed as items, and its row changes no index with each of them.
    pub fn event(&self) -> Option<Seq> {
        match &self.state {
            GateState::Fold(fold) if self.key.class() == Some(Class::Batch) => Some(fold.first.seq),
            GateState::Fold(fold) => Some(fold.last.seq),
            GateState::Slots(_)
            | GateState::Turns(_)
            | GateState::Meter(_)
            | GateState::Claim(_) => None,
        }
    }
}

/// What a gate remembers, by primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateState {
    /// Who is inside, and where the line begins.
    Slots(Slots),
    /// When the next arrival conforms.
    Meter(Meter),
    /// A meter with a line.
    Turns(Turns),
    /// A window or a buffer.
    Fold(Fold),
    /// Who was first.
    Claim(Claim),
}

/// A gate in the narrow sense: the set of holders, never a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Slots {
    /// Who is inside.
    pub holders: Vec<Hold>,
    /// A lower bound of the line's first place; none means that nobody waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Place>,
    /// Folds that could not flush because of a holder, and flush when it ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folds: Vec<GateKey>,
    /// The release that older, unstarted waiters move to when they are let in (supersede).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<i64>,
}

/// One run's place inside a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The run.
    pub run: RunId,
    /// Cancelled, and its worker has not confirmed the stop yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

/// A GCRA: the theoretical arrival time, exact, with the rate that it was computed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Whole microseconds of the theoretical arrival time.
    pub tat: i64,
    /// The rest, in `1/limit` of a microsecond.
    pub rest: u32,
    /// The rate it was computed under.
    pub limit: u32,
    /// The period it was computed under.
    pub per_ms: u64,
}

/// A throttle: its meter, who was let through and has not started, and its line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// The meter; none before the first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meter: Option<Meter>,
    /// Let through, not yet leased: they have a turn each.
    pub pending: Vec<Seq>,
    /// As in [`Slots`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Place>,
}

/// A window (`last`) or a buffer (`all`), open or waiting for its run to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fold {
    /// The run that will carry it.
    pub run: RunId,
    /// The first event.
    pub first: EventId,
    /// The last event accepted.
    pub last: EventId,
    /// The runs that go before its own: those that were live when they were last looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<RunId>,
    /// When the first event came.
    pub opened: Timestamp,
    /// When it flushes if nothing more comes.
    pub deadline: Timestamp,
    /// How many events it holds.
    pub count: u32,
    /// How many bytes of data it holds.
    pub bytes: u64,
    /// Parts that grew full while it was held: each becomes a run of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<Part>,
    /// Due, but its flush would be refused; keeps folding until the holder ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Paused by hand: it keeps folding, and does not flush until it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Its run exists and has not started: later events still join it (policy `debounce`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fired: bool,
}

/// A part of a held buffer that takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The run that will carry it.
    pub run: RunId,
    /// Its first event.
    pub first: EventId,
    /// How many events it holds.
    pub count: u32,
}

/// A claim: the first taker wins until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The event that took it.
    pub event: EventId,
    /// The run it was taken for, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When it comes free.
    pub until: Timestamp,
}
