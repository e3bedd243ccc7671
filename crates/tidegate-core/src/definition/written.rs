//! The controls of a definition as its author wrote them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::flow::CONTROLS;

/// Control fields exactly as the author wrote them, including defaults that the author wrote.
///
/// All values of this type are equal, because it is only another form of the fields of the
/// definition: definitions that differ only here are the same.
#[derive(Clone, Debug, Default, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Written(Map<String, Value>);

impl PartialEq for Written {
    fn eq(&self, _: &Written) -> bool {
        true
    }
}

impl Written {
    /// Returns the control fields of a definition.
    pub(super) fn of(definition: &Value) -> Written {
        let fields = definition.as_object().into_iter().flatten();
        let control = |name: &str| CONTROLS.iter().any(|control| control.name == name);
        let given = fields.filter(|(name, value)| control(name) && !value.is_null());
        Written(given.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Removes a control whose written form is only a part of its settings. Its plain form is used
    /// then.
    pub(crate) fn forget(&mut self, control: &str) {
        self.0.remove(control);
    }

    /// Removes the controls whose written form is equal to the plain form.
    pub(super) fn keep_unlike(&mut self, plain: &Map<String, Value>) {
        self.0.retain(|name, value| plain.get(name).is_some_and(|plain| plain != value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the plain form of controls by the written form, if there is one.
    pub(super) fn restore(&self, controls: &mut Map<String, Value>) {
        for (name, value) in controls {
            if let Some(written) = self.0.get(name) {
                value.clone_from(written);
            }
        }
    }
}
