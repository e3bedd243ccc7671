//! Programs of the README and of the book, compiled as doctests so that they stay correct.

macro_rules! pages {
    ($($name:ident = $path:literal,)*) => {
        $(#[doc = include_str!(concat!("../../../", $path))]
        struct $name;)*
    };
}

pages! {
    Readme = "README.md",
    Embedded = "docs/embedded.md",
    Deferred = "docs/concepts/deferred.md",
    Events = "docs/concepts/events.md",
    Leases = "docs/concepts/leases.md",
    Reactions = "docs/concepts/reactions.md",
    Runs = "docs/concepts/runs.md",
    Schedules = "docs/concepts/schedules.md",
    Shutdown = "docs/concepts/shutdown.md",
    Steps = "docs/concepts/steps.md",
    Testing = "docs/concepts/testing.md",
    TransactionalSteps = "docs/concepts/transactional-steps.md",
    Streams = "docs/concepts/streams.md",
    Versions = "docs/concepts/versions.md",
    ControlBatch = "docs/controls/batch.md",
    ControlClosing = "docs/controls/closing.md",
    ControlConcurrency = "docs/controls/concurrency.md",
    ControlCosts = "docs/controls/costs.md",
    ControlDebounce = "docs/controls/debounce.md",
    ControlHandoff = "docs/controls/handoff.md",
    ControlLimitsFromData = "docs/controls/limits-from-data.md",
    ControlIdempotency = "docs/controls/idempotency.md",
    ControlPolicies = "docs/controls/policies.md",
    ControlPools = "docs/controls/pools.md",
    ControlPriority = "docs/controls/priority.md",
    ControlQueues = "docs/controls/queues.md",
    ControlAdaptive = "docs/controls/adaptive.md",
    ControlFair = "docs/controls/fair.md",
    ControlRateLimit = "docs/controls/rate-limit.md",
    ControlSingleton = "docs/controls/singleton.md",
    ControlStartWithin = "docs/controls/start-within-ms.md",
    ControlCancelOn = "docs/controls/cancel-on.md",
    ControlThrottle = "docs/controls/throttle.md",
}
