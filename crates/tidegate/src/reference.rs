//! Typed references to workflows.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::Serialize;

/// Name of a workflow with the types of its input and output, for starting and calling it.
///
/// [`Workflow::reference`](crate::Workflow::reference) returns it. For a workflow whose code is in
/// another process, write a constant beside the types of its input and output:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidegate::WorkflowRef;
///
/// #[derive(Serialize, Deserialize)]
/// struct Order {
///     item: String,
/// }
///
/// /// A workflow that the warehouse's process serves.
/// const SHIP: WorkflowRef<Order, String> = WorkflowRef::new("ship");
///
/// assert_eq!(SHIP.name(), "ship");
/// ```
///
/// Creating a reference does not check that the workflow exists or has these types.
/// [`Engine::start`] and [`Ctx::invoke`] report an unknown name; a value of another type is an
/// error where it is read.
///
/// [`Engine::start`]: crate::Engine::start
/// [`Ctx::invoke`]: crate::Ctx::invoke
pub struct WorkflowRef<I, O> {
    /// App of the workflow; `None` for the app of the caller.
    app: Option<Cow<'static, str>>,
    name: Cow<'static, str>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> WorkflowRef<I, O> {
    /// Creates a reference by name. The workflow belongs to the app of the run that calls it, or to
    /// the default app if an engine starts it.
    pub const fn new(name: &'static str) -> Self {
        Self { app: None, name: Cow::Borrowed(name), types: PhantomData }
    }

    /// Creates a reference as [`WorkflowRef::new`] does, from a name that is computed at run time.
    pub fn named(name: impl Into<String>) -> Self {
        Self { app: None, name: Cow::Owned(name.into()), types: PhantomData }
    }

    /// Sets the app of the workflow.
    #[must_use]
    pub fn app(self, app: impl Into<String>) -> Self {
        Self { app: Some(Cow::Owned(app.into())), ..self }
    }

    /// Returns the name of the workflow.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<I, O> Clone for WorkflowRef<I, O> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), name: self.name.clone(), types: PhantomData }
    }
}

impl<I, O> fmt::Debug for WorkflowRef<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowRef").field("app", &self.app).field("name", &self.name).finish()
    }
}

/// A workflow to start or to call: a [`WorkflowRef`], or a name.
///
/// A reference fixes the types of input and output. With a name, the caller chooses them.
pub trait WorkflowTarget<I, O>: sealed::Sealed {
    /// Returns the app (`None` for the caller's app) and the name.
    fn target(&self) -> (Option<&str>, &str);
}

mod sealed {
    pub trait Sealed {}
    impl<I, O> Sealed for &super::WorkflowRef<I, O> {}
    impl Sealed for &str {}
    impl Sealed for &String {}
    impl Sealed for String {}
}

impl<I, O> WorkflowTarget<I, O> for &WorkflowRef<I, O> {
    fn target(&self) -> (Option<&str>, &str) {
        (self.app.as_deref(), &self.name)
    }
}

macro_rules! by_name {
    ($($name:ty),*) => {
        $(impl<I: Serialize, O> WorkflowTarget<I, O> for $name {
            fn target(&self) -> (Option<&str>, &str) {
                (None, self)
            }
        })*
    };
}

by_name!(&str, &String, String);
