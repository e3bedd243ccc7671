//! Index of workflows by the names, or prefixes of names, of the events that trigger them.

use rpds::RedBlackTreeSetSync;

use super::{FullName, Map};
use crate::definition::Trigger;

/// The subscriptions of all workflows of a catalog.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscribers {
    by_name: Map<String, RedBlackTreeSetSync<FullName>>,
    by_prefix: Map<String, RedBlackTreeSetSync<FullName>>,
}

impl Subscribers {
    /// Subscribes a workflow to the events of a trigger. Ignores triggers that are not for events.
    pub(super) fn add(&mut self, trigger: &Trigger, workflow: &FullName) {
        let Some((names, name)) = self.place(trigger) else { return };
        let mut workflows = names.get(name).cloned().unwrap_or_default();
        workflows.insert_mut(workflow.clone());
        names.insert_mut(name.to_owned(), workflows);
    }

    /// Removes the subscription that [`Subscribers::add`] has added.
    pub(super) fn remove(&mut self, trigger: &Trigger, workflow: &FullName) {
        let Some((names, name)) = self.place(trigger) else { return };
        let Some(mut workflows) = names.get(name).cloned() else { return };
        workflows.remove_mut(workflow);
        if workflows.is_empty() {
            names.remove_mut(name);
        } else {
            names.insert_mut(name.to_owned(), workflows);
        }
    }

    /// Returns the workflows that an event of this name triggers, each once, by app and name.
    ///
    /// Looks up every prefix of the event's name, so that the cost depends on the length of the
    /// name and not on the number of workflows.
    pub(super) fn of(&self, event: &str) -> Vec<&FullName> {
        let mut workflows: Vec<_> = self.by_name.get(event).into_iter().flatten().collect();
        if !self.by_prefix.is_empty() {
            let ends = (0..=event.len()).filter(|end| event.is_char_boundary(*end));
            let found = ends.filter_map(|end| self.by_prefix.get(&event[..end]));
            workflows.extend(found.flatten());
            workflows.sort();
            workflows.dedup();
        }
        workflows
    }

    /// Returns the map that has the subscription of a trigger, and the key in this map.
    fn place<'a, 't>(
        &'a mut self,
        trigger: &'t Trigger,
    ) -> Option<(&'a mut Map<String, RedBlackTreeSetSync<FullName>>, &'t str)> {
        match trigger {
            Trigger::Event { name, prefix: true, .. } => Some((&mut self.by_prefix, name)),
            Trigger::Event { name, prefix: false, .. } => Some((&mut self.by_name, name)),
            Trigger::Cron { .. } | Trigger::Stream { .. } => None,
        }
    }
}
