//! Overlap: what happens to an occurrence while the last run of its schedule has not ended.
//!
//! The setting has the same words and effects as the policy of an action, at a gate whose key is
//! the schedule. Only `debounce` is not allowed. Occurrences are planned one by one and never
//! folded (spec A5): a window longer than the interval between two occurrences would never end,
//! and a shorter one would only delay the run.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    catalog::Limit,
    definition::{Code, Fields, Problems, Reported},
    flow::{
        control::{Control, Moment},
        plan::Origin,
        policy::{self, Policy, PolicyKey, PolicyKind},
    },
    key::Key,
    row::{Class, Span},
};

/// Row in the table of controls. The setting `onOverlap` is a field of a cron trigger.
pub(crate) const CONTROL: Control = Control {
    name: "onOverlap",
    acts: Moment::Creation,
    classes: &[Class::Schedule],
    plan: |candidate, plan| {
        if let Origin::Cron { schedule, overlap } = &candidate.origin
            && *overlap != Overlap::Allow
        {
            let scope = candidate.scope_of(Class::Schedule, schedule.clone(), Key::Whole);
            plan.add(&scope, Span::Run, overlap.policy().when_full());
        }
        Ok(())
    },
    limit: |_, _, _| Limit::Slots(1),
    ..Control::NONE
};

/// What happens to an occurrence while the last run of its schedule has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Overlap {
    /// The occurrence is skipped, and the skip is recorded. The policy of actions calls this
    /// `reject`.
    #[default]
    Skip,
    /// The occurrence starts; the runs execute at the same time.
    Allow,
    /// Occurrences wait for each other, in order.
    Queue {
        /// Maximum time that an occurrence waits before it is cancelled; none means no maximum.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_wait_ms: Option<u64>,
    },
    /// The run of the occurrence replaces the running one, which is cancelled.
    Restart,
}

/// The words that an author writes for [`Overlap`].
const WORDS: [&str; 5] = ["skip", "allow", "queue", "restart", "reject"];

const NO_DEBOUNCE: &str = "cannot be `debounce`, as planned occurrences are never folded: write \
                           `queue` to run each in turn, `restart` to run the latest, `skip` to \
                           leave out those that come too early, or `allow`";

impl Overlap {
    /// Returns the policy of actions with the same effect.
    pub fn policy(self) -> PolicyKind {
        match self {
            Self::Skip => PolicyKind::Reject,
            Self::Allow => PolicyKind::Allow,
            Self::Queue { max_wait_ms } => PolicyKind::Queue { max_wait_ms, queue: None },
            Self::Restart => PolicyKind::Restart,
        }
    }

    /// Reads a word, or an object with the word and its settings.
    pub(crate) fn read(
        value: &Value,
        at: &str,
        problems: &mut Problems,
    ) -> Result<Overlap, Reported> {
        if value.is_string() {
            return Overlap::read(&json!({ "policy": value }), at, problems);
        }
        let known: &[&str] = match value.get("policy").and_then(Value::as_str) {
            Some("debounce") => return Err(problems.error(Code::Misplaced, at, NO_DEBOUNCE)),
            Some("queue") => &["policy", "maxWaitMs"],
            _ => &["policy"],
        };
        let mut fields = Fields::open(value, at, known, problems)?;
        if fields.text("policy")? == Some("skip") {
            return Ok(Self::Skip);
        }
        match policy::read_kind(&mut fields, &WORDS)? {
            PolicyKind::Allow => Ok(Self::Allow),
            PolicyKind::Queue { max_wait_ms, .. } => Ok(Self::Queue { max_wait_ms }),
            PolicyKind::Restart => Ok(Self::Restart),
            PolicyKind::Reject | PolicyKind::Debounce { .. } | PolicyKind::Latest => Ok(Self::Skip),
        }
    }

    /// Returns the author's form.
    pub fn to_value(self) -> Value {
        match self {
            Self::Skip => json!("skip"),
            Self::Allow | Self::Queue { .. } | Self::Restart => {
                Policy { kind: self.policy(), key: PolicyKey::default() }.to_value()
            }
        }
    }
}
