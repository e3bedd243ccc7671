//! Code of the handlers: a script that successive builds of a program edit.
//!
//! A handler is a sequence of operations, so the rule for continuing a history is simple: the code
//! must request all recorded operations before the first one without a record.

use std::collections::BTreeSet;

use tidegate_testkit::{
    sim::script::{Op, Script},
    workload::Chance,
};

/// Maximum number of builds of a program.
pub(crate) const BUILDS: usize = 4;

/// Change of the code of all handlers. The position is taken modulo the length of the code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// An operation gets another id.
    Rename,
    /// A step is added.
    Insert,
    /// An operation is removed.
    Remove,
    /// A step is added inside of `if ctx.patched(…)`.
    InsertPatched,
    /// An operation gets another id if `ctx.patched(…)` is true.
    RenamePatched,
    /// All patches are finished: the calls of `ctx.patched` and the old paths are removed.
    Settle,
}

/// One edit: its number (unique over all builds), its position, and the change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit(usize, usize, Change);

/// Returns the builds of a program, each as a list of edits. The first has none, and each other one
/// has one more edit than an earlier build.
pub(crate) fn builds(chance: &mut Chance) -> Vec<Vec<Edit>> {
    let mut builds: Vec<Vec<Edit>> = vec![Vec::new()];
    for number in 1..BUILDS {
        let base = if chance.percent(70) { number - 1 } else { chance.index(number) };
        let kind = chance.one(&[
            Change::Rename,
            Change::Insert,
            Change::Remove,
            Change::InsertPatched,
            Change::InsertPatched,
            Change::RenamePatched,
            Change::Settle,
        ]);
        let mut edits = builds[base].clone();
        edits.push(Edit(number, chance.index(8), kind));
        builds.push(edits);
    }
    builds
}

/// An operation with its id.
pub(crate) type Named = (String, Op);

/// A part of a handler.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Plain(Named),
    /// The new operation if the patch is true; otherwise the old one, or none.
    Patched {
        patch: String,
        new: Named,
        old: Option<Named>,
    },
}

/// Code of one handler in one build.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) parts: Vec<Part>,
    pub(crate) script: Script,
    /// Version number in the definition.
    pub(crate) version: Option<u32>,
}

impl Code {
    pub(crate) fn new(script: &Script, version: Option<u32>, edits: &[Edit]) -> Self {
        let named = script.ops.iter().enumerate().map(|(n, op)| (format!("s{n}"), op.clone()));
        let mut parts: Vec<Part> = named.map(Part::Plain).collect();
        for edit in edits {
            edit.apply(&mut parts);
        }
        Self { parts, script: script.clone(), version }
    }

    /// Returns whether the code can continue a history: it requests all recorded operations before
    /// the first one without a record. `around` has the ids that are requested before and after the
    /// parts, `waits` the ids of waits without an answer.
    ///
    /// A patch is `true` if its marker is recorded, or if the code has already requested the whole
    /// history. So if `ctx.patched` was removed from the code too early, the patch is `false` for
    /// such a history, and the run may stop.
    pub(crate) fn continues(
        &self,
        around: [&[&str]; 2],
        does: impl Fn(&Op) -> bool,
        recorded: &BTreeSet<&str>,
        waits: &BTreeSet<&str>,
    ) -> bool {
        let mut asked: BTreeSet<String> = BTreeSet::new();
        let is_whole = |asked: &BTreeSet<String>| {
            let mut ids = recorded.iter().chain(waits).filter(|id| !id.starts_with("patch:"));
            ids.all(|id| asked.contains(*id))
        };
        // Requests a group of ids. Returns whether the code continues, because the whole group is
        // recorded, and whether all recorded ids have been requested.
        let mut ask = |group: Group| {
            let goes_on = group.iter().all(|id| recorded.contains(id.as_str()));
            asked.extend(group);
            (goes_on, is_whole(&asked))
        };
        let [before, after] = around.map(|ids| ids.iter().map(|id| vec![(*id).to_owned()]));
        let (mut goes_on, mut whole) = ask(Group::new());
        for group in before {
            (goes_on, whole) = if goes_on { ask(group) } else { return whole };
        }
        for part in &self.parts {
            let named = match part {
                Part::Plain(named) => Some(named),
                Part::Patched { patch, new, old } => {
                    let marked = recorded.contains(format!("patch:{patch}").as_str());
                    if marked || whole { Some(new) } else { old.as_ref() }
                }
            };
            let Some((id, op)) = named.filter(|(_, op)| does(op)) else { continue };
            for group in groups(id, op) {
                (goes_on, whole) = if goes_on { ask(group) } else { return whole };
            }
        }
        for group in after {
            (goes_on, whole) = if goes_on { ask(group) } else { return whole };
        }
        whole
    }
}

/// Ids that are requested at the same time.
type Group = Vec<String>;

/// Returns the ids that an operation requests, one group after another.
pub(crate) fn groups(id: &str, op: &Op) -> Vec<Group> {
    match op {
        // The compensation is registered before the step.
        Op::Step { fails: 1, .. } => vec![vec![format!("u{id}")], vec![id.to_owned()]],
        Op::Both(_) => vec![vec![format!("{id}a"), format!("{id}b")]],
        _ => vec![vec![id.to_owned()]],
    }
}

impl Edit {
    fn apply(self, parts: &mut Vec<Part>) {
        let Self(number, place, change) = self;
        let added = (format!("x{number}"), Op::Step { ms: 1, fails: 0, pools: Vec::new() });
        let patch = format!("p{number}");
        match change {
            Change::Insert => parts.insert(place % (parts.len() + 1), Part::Plain(added)),
            Change::InsertPatched => {
                let part = Part::Patched { patch, new: added, old: None };
                parts.insert(place % (parts.len() + 1), part);
            }
            Change::Settle => {
                for part in parts {
                    if let Part::Patched { new, .. } = part.clone() {
                        *part = Part::Plain(new);
                    }
                }
            }
            _ if parts.is_empty() => {}
            Change::Remove => drop(parts.remove(place % parts.len())),
            Change::Rename | Change::RenamePatched => {
                let at = place % parts.len();
                let Part::Plain((id, op)) = parts[at].clone() else { return };
                let new = (format!("{id}r{number}"), op.clone());
                parts[at] = match change {
                    Change::Rename => Part::Plain(new),
                    _ => Part::Patched { patch, new, old: Some((id, op)) },
                };
            }
        }
    }
}
