//! Origin of a run: its input, its parent and its children.

use crate::{
    draft::{Decided, Draft, Missing},
    id::{RunId, Seq},
    reads::Scan,
    row::{At, Awaited, Event, Kind, Row, RowKey, Source, Trail, WaitOn, Workspace},
};

/// Maximum number of events of a batch that are returned.
const SHOWN: u32 = 100;

/// Origin of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The kind of input.
    pub kind: Kind,
    /// The name of the event, or of the called workflow or action.
    pub name: String,
    /// The run's input; for a batch, its first hundred events.
    pub inputs: Vec<Event>,
    /// Whether the run was started by a batch.
    pub batch: bool,
    /// The run that called this run.
    pub parent: Option<RunId>,
    /// Children that the run has waited for. Only those in its trail are known.
    pub children: Vec<RunId>,
}

/// Returns the origin of a run; `None` if there is no run with this id or its input was deleted.
pub fn origin<E>(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Option<Origin>, E> {
    let mut missing = Missing::default();
    let live = missing.note(draft.row(&RowKey::Run(id.seq)))?.flatten();
    let ended = missing.note(draft.row(&RowKey::Ended(id.seq)))?.flatten();
    missing.settle()?;
    let (source, batch, parent, children) = match (live, ended) {
        (Some(Row::Run(run)), _) if run.id == id && run.ws == *ws => {
            let mut children = called(&run.trail);
            for wait in &run.waits {
                if let WaitOn::Child { run } = wait.on
                    && !children.contains(&run)
                {
                    children.push(run);
                }
            }
            (run.source, run.batch(), run.parent.as_ref().map(|parent| parent.run), children)
        }
        (_, Some(Row::Ended(run))) if run.id == id && run.ws == *ws => {
            (run.source, run.batch(), run.parent, called(&run.trail))
        }
        _ => return Ok(None),
    };
    let mut events = vec![source.first()];
    let is_batch = matches!(source, Source::Batch(_));
    if is_batch {
        let items = draft.found(&Scan::Items(batch.seq), SHOWN)?;
        let items = items
            .iter()
            .filter_map(|row| if let Row::Item(it) = row { Some(it.event) } else { None });
        events = items.collect();
    }
    let mut missing = Missing::default();
    let mut inputs: Vec<Event> = Vec::new();
    for event in events {
        inputs.extend(missing.note(draft.event(event))?.flatten().cloned());
    }
    let parent = match parent {
        Some(parent) => missing.note(id_of(draft, parent))?.flatten(),
        None => None,
    };
    missing.settle()?;
    let Some(first) = inputs.first() else { return Ok(None) };
    let (kind, name) = (first.kind, first.name.clone());
    Ok(Some(Origin { kind, name, inputs, batch: is_batch, parent, children }))
}

/// Returns the children for which a run has waited, according to its trail.
fn called(trail: &Trail) -> Vec<RunId> {
    let mut children = Vec::new();
    for mark in trail.marks() {
        let At::Waiting(waits) = &mark.1 else { continue };
        for (_, awaited) in waits {
            if let Awaited::Child(run) = awaited
                && !children.contains(run)
            {
                children.push(*run);
            }
        }
    }
    children
}

/// Returns the full id of the run with this number.
fn id_of<E>(draft: &Draft, run: Seq) -> Decided<Option<RunId>, E> {
    if let Some(run) = draft.run(run)? {
        return Ok(Some(run.id));
    }
    let ended = draft.row(&RowKey::Ended(run))?;
    Ok(ended.and_then(|row| if let Row::Ended(run) = row { Some(run.id) } else { None }))
}
