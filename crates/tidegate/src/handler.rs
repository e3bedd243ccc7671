//! Interface between the driver of a run and the code that executes it.
//!
//! The code gets its [`Ctx`] from the driver, and requests all operations from it: steps, sleeps,
//! waits and calls. At its end it returns a result. The driver does not know whether the code is an
//! async function of this program or a service that is called over a network.

use std::{fmt, future::Future, marker::PhantomData, ops::RangeInclusive, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::{
    definition::{MAX_NAME_CHARS, Problem},
    json::Payload,
    key::Key,
    request::Request,
};

use crate::{
    context::Ctx,
    step_error::{Result, StepError},
    timer::BoxFuture,
};

/// Executes the runs of one definition.
pub trait Handler: Send + Sync + 'static {
    /// Starts the handler of a run, or starts it again with the recorded results.
    fn call(&self, ctx: Ctx) -> std::pin::Pin<Box<dyn Future<Output = Result<Payload>> + Send>>;
}

/// Function of a program that computes the key of a request; [`Key::Missing`] if the request has
/// none.
pub(crate) type KeyFunction = Arc<dyn Fn(&Request) -> Key + Send + Sync>;

/// A definition as its author wrote it, with the code that serves it.
#[derive(Clone)]
pub struct ServedWorkflow {
    /// Definition, as JSON.
    pub(crate) definition: serde_json::Value,
    /// Problem because of which the definition could not be parsed at all.
    pub(crate) unreadable: Option<Problem>,
    /// Handler of the runs.
    pub(crate) handler: Arc<dyn Handler>,
    /// Handler that runs after a failure.
    pub(crate) on_failure: Option<Arc<dyn Handler>>,
    /// Older versions whose runs the same code continues.
    pub(crate) also_serves: Option<RangeInclusive<u32>>,
    /// Function that computes the key of the definition's policy.
    pub(crate) key_function: Option<KeyFunction>,
}

impl fmt::Debug for ServedWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedWorkflow")
            .field("definition", &self.definition)
            .finish_non_exhaustive()
    }
}

/// An async function with a typed input and output.
pub(crate) struct Typed<F, I, O> {
    function: Arc<F>,
    types: PhantomData<fn(I) -> O>,
}

impl<F, I, O> Typed<F, I, O> {
    pub(crate) fn new(function: F) -> Self {
        Self { function: Arc::new(function), types: PhantomData }
    }
}

impl<F, Fut, I, O> Handler for Typed<F, I, O>
where
    F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    fn call(&self, ctx: Ctx) -> BoxFuture<Result<Payload>> {
        let function = self.function.clone();
        Box::pin(async move {
            let input = read_input(&ctx)?;
            write(&function(ctx, input).await?)
        })
    }
}

/// Failure handler of a version whose code in this process has none. It fails, and the run is
/// retried by its retry policy: another process may have the real handler.
pub(crate) struct NoFailureHandler;

impl Handler for NoFailureHandler {
    fn call(&self, ctx: Ctx) -> BoxFuture<Result<Payload>> {
        Box::pin(async move {
            let (workflow, version) = (ctx.workflow(), ctx.version());
            let message = format!(
                "workflow `{workflow}`: version {version} has a failure handler, and the code \
                 that serves it has none: give newer code a version number"
            );
            Err(StepError::coded("NoFailureHandler", message))
        })
    }
}

/// Error code for an input that cannot be read as the handler's type.
pub(crate) const BAD_INPUT: &str = "BadInput";

/// Reads the handler's input: the data of an event, of all events of a batch, or of a request.
fn read_input<I: DeserializeOwned>(ctx: &Ctx) -> Result<I> {
    let text = ctx.input();
    serde_json::from_str(&text).map_err(|error| {
        let wanted = std::any::type_name::<I>();
        let workflow = ctx.workflow();
        let message = format!("the input of `{workflow}` cannot be read as {wanted}: {error}");
        StepError::coded(BAD_INPUT, message).fatal()
    })
}

/// Maximum size of a value that a step or a run returns.
///
/// Put larger data into a file store, and return its address.
pub const MAX_VALUE_BYTES: usize = 4 * 1024 * 1024;

/// Checks the name of a step, an event or a signal. The error describes the rule that the name
/// breaks.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let chars = name.chars().count();
    match chars {
        1..=MAX_NAME_CHARS if name.contains('\0') => Err("must not contain NUL".to_owned()),
        1..=MAX_NAME_CHARS => Ok(()),
        _ => Err(format!("must have 1 to {MAX_NAME_CHARS} characters, got {chars}")),
    }
}

/// Serializes a value for its record.
pub(crate) fn write(value: &impl Serialize) -> Result<Payload> {
    let text = serde_json::to_string(value).map_err(|error| {
        StepError::coded("BadOutput", format!("the value cannot be written as JSON: {error}"))
            .fatal()
    })?;
    Payload::parse(text.as_bytes(), MAX_VALUE_BYTES).map_err(|error| {
        let advice = "keep it elsewhere and return its address";
        StepError::coded("ValueTooLarge", format!("{error}; {advice}")).fatal()
    })
}
