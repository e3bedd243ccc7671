//! The code of handlers: a script, edited by successive builds of a program.
//!
//! A handler is a sequence of operations, so the rule for continuing a history is simple: the code
//! has to reach all recorded operations before the first unrecorded one.

use std::collections::BTreeSet;

use tidegate_testkit::{
    sim::script::{Op, Script},
    workload::Chance,
};

/// The maximum number of builds of a program.
pub(crate) const BUILDS: usize = 4;

/// A change of the code of all handlers. The position is taken modulo their lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// An operation gets another id.
    Rename,
    /// A step is added.
    Insert,
    /// An operation is removed.
    Remove,
    /// A step is added behind `ctx.patched`.
    InsertPatched,
    /// An operation gets another id behind `ctx.patched`.
    RenamePatched,
    /// All patches are settled: the calls of `ctx.patched` are removed, with the old paths.
    Settle,
}

/// One edit: its number, which is unique over all builds, its position, and its change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit(usize, usize, Change);

/// The builds of a program: the first is the script itself, each other is an earlier one with one
/// more edit.
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
    /// One of two operations, or none instead of the second.
    Patched {
        patch: String,
        new: Named,
        old: Option<Named>,
    },
}

/// The code of one handler in one build.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) parts: Vec<Part>,
    pub(crate) script: Script,
    /// The version number in the definition.
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

    /// Returns whether the code can continue a history: it reaches all of it before the first
    /// unrecorded operation. `around` are the ids before and after its parts, `waits` those that
    /// are not answered yet.
    ///
    /// A patch is `true` where its marker is recorded, or where nothing was recorded behind it. So
    /// it is `false`, and the run may stop, on a history of code from which the call was removed
    /// too early.
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
        // Returns whether the code continues, because the whole group is recorded, and whether all
        // recorded ids have been reached.
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

/// Ids that are reached at once.
type Group = Vec<String>;

/// The ids that an operation reaches, one group after another.
pub(crate) fn groups(id: &str, op: &Op) -> Vec<Group> {
    match op {
        // The compensation is registered first.
        Op::Step { fails: 1, .. } => vec![vec![format!("u{id}")], vec![id.to_owned()]],
        Op::Both(_) => vec![vec![format!("{id}a"), format!("{id}b")]],
        _ => vec![vec![id.to_owned()]],
    }
}

impl Edit {
    fn apply(self, parts: &mut Vec<Part>) {
        let Self(number, place, change) = self;
        let added = (format!("x{number}"), Op::Step { ms: 1, fails: 0 });
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
