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
    /// Subscribes a workflow. A trigger other than by events is ignored.
    pub(super) fn add(&mut self, trigger: &Trigger, workflow: &FullName) {
        let Some((names, name)) = self.place(trigger) else { return };
        let mut workflows = names.get(name).cloned().unwrap_or_default();
        workflows.insert_mut(workflow.clone());
        names.insert_mut(name.to_owned(), workflows);
    }

    /// Removes a subscription.
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
    /// Every prefix of the name is looked up, at most as many as it has characters: trying all
    /// subscribed prefixes would cost more with every workflow.
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

    /// Returns the map that holds the subscription of a trigger, and its name there.
    fn place<'a, 't>(
        &'a mut self,
        trigger: &'t Trigger,
    ) -> Option<(&'a mut Map<String, RedBlackTreeSetSync<FullName>>, &'t str)> {
        match trigger {
            Trigger::Event { name, prefix: true } => Some((&mut self.by_prefix, name)),
            Trigger::Event { name, prefix: false } => Some((&mut self.by_name, name)),
            Trigger::Cron { .. } | Trigger::Stream { .. } => None,
        }
    }
}
