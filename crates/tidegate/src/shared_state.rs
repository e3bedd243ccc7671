//! Values that the program gives to its handlers: pools, clients, settings.

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use crate::step_error::{Result, StepError};

/// Values that the program has given to its engine, one of each type.
#[derive(Clone, Default)]
pub(crate) struct SharedState(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedState").field("values", &self.0.len()).finish()
    }
}

impl SharedState {
    pub(crate) fn set<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of this type, or an error that names the type and `user`, which requested
    /// it.
    ///
    /// The error is retried, because a process that has the value may take over the run.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, user: fmt::Arguments<'_>) -> Result<&T> {
        let value = self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        value.ok_or_else(|| {
            let wanted = type_name::<T>();
            let message = format!(
                "{user} uses state of type `{wanted}`, which its engine does not have: add it \
                 with `EngineBuilder::state`"
            );
            StepError::coded("NoState", message)
        })
    }
}
