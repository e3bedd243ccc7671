//! Bugs planted on purpose, so that the simulator can prove that it would find them.
//!
//! Without the feature `planted`, which nothing that ships turns on, `planted!` is plain `false`
//! and nothing of this is compiled. With it, one bug at a time is switched on for one thread.

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    macro_rules! bugs {
        ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
            /// A bug that can be switched on.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Bug {
                $($(#[doc = $doc])* $name,)*
            }

            impl Bug {
                /// All of them.
                pub const ALL: &[Self] = &[$(Self::$name),*];
            }
        };
    }

    bugs! {
        /// A report is accepted whatever fence it repeats.
        NoFence,
        /// A lease keeps the fence of the one before.
        FenceStandsStill,
        /// Whoever has been cancelled and still runs is not counted.
        CountsWithoutDraining,
        /// A gate lets in one more than its limit.
        LimitOffByOne,
        /// A cancelled run leaves its holds behind.
        HoldKeptOnCancel,
        /// A run that sleeps keeps its slot.
        SlotKeptInSleep,
        /// Nobody looks at a line when a place comes free.
        LineStuck,
        /// A run that comes back stands before all others.
        RetryOvertakes,
        /// The line of a session is served from its end.
        QueueFromTheEnd,
        /// Priority counts twice.
        PriorityTwice,
        /// A child waits for what its own caller keeps.
        AncestorsForgotten,
        /// A window is opened in one commit and its timer is left for another.
        WindowWithoutTimer,
        /// An event that comes too late still joins the window.
        AppendsAfterTheDeadline,
        /// A window keeps its first event.
        FirstPayloadWins,
        /// A batch takes one more than its size.
        BatchTooLarge,
        /// A throttle's turn is never spent.
        TurnNotSpent,
        /// A meter refuses at the very moment that it named.
        MeterStrict,
        /// A skipped event keeps the claim and the token that it took.
        RefusedKeepsAll,
        /// A singleton looks inside only, not at who waits.
        SingletonIgnoresWaiting,
        /// A `dedupeId` is not kept.
        DedupeForgotten,
        /// A signal to a run that does not wait for it is lost.
        SignalLost,
        /// An event wakes only those who match on nothing.
        WakesWithoutMatch,
        /// A wait is answered by an event that came before it began.
        EarlyEventCounts,
        /// A wait that is over stays filed.
        WaitLeftFiled,
        /// A sleeping run has no time to wake at.
        SleepsForEver,
        /// The end of a child is not told to its parent.
        ChildEndUntold,
        /// A replaced run that is driven goes on.
        ReplacedGoesOn,
        /// A cancelled run is let go of before its worker has stopped.
        LetGoTooSoon,
        /// A step is recorded again.
        RecordsTwice,
        /// A run is taken from an engine that lives.
        ReapsTheLiving,
        /// An engine is declared dead whatever its beat.
        DeadAtAnyBeat,
        /// A dead engine is told that it lives.
        BeatAfterDeath,
        /// A lost lease is not counted.
        LossNotCounted,
        /// A newer version does not wait for older runs that sleep.
        DrainIgnoresSleeping,
        /// A newer version leaves older runs alone that it should cancel.
        SupersedeSparesTheOld,
        /// A run that has started is moved to a newer version.
        MovesTheStarted,
        /// A gate is shared between workspaces.
        WorkspaceForgotten,
        /// A commit to a stream leaves out a version.
        VersionSkipped,
        /// A commit is kept whatever version its caller expects.
        ExpectationIgnored,
        /// A commit takes the position of the one before.
        PositionTwice,
        /// A closed stream takes commits.
        GuardIgnored,
        /// A closed stream is truncated before all reactions are done with it.
        TruncatesTooSoon,
        /// A place is claimed while another engine holds its lease.
        ClaimsTheLeased,
        /// A place is claimed although it is blocked.
        ClaimsTheBlocked,
        /// A place is claimed before its backoff is over.
        ClaimsTheDeferred,
        /// A claim takes one place less than it may.
        ClaimsTooFew,
        /// The place that was claimed last is claimed next.
        ClaimsTheLast,
        /// A lease that is over is still taken for good.
        LostLeaseCounts,
        /// An ack moves one event further than its holder says.
        AckSkipsOne,
        /// A failure takes the place back to the start of its batch.
        FailureForgetsProgress,
        /// A reset leaves the lease of the old place good.
        ResetKeepsFence,
        /// A commit does not tell the reactions that follow its stream.
        FollowersUntold,
        /// An occurrence of a schedule is started again.
        OccursTwice,
        /// Missed occurrences leave no receipt.
        MissUncounted,
        /// A schedule that is resumed plans an occurrence that took place before.
        ResumesBack,
        /// Retention allows for no clock that steps back.
        HorizonTooEarly,
        /// Retention deletes runs that have just ended.
        ForgetsTheYoung,
        /// Retention deletes events that are still relied on.
        ForgetsInputs,
    }

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Switches one bug on for this thread, or the last one off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether a bug is on.
    pub fn is_on(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub use switch::{Bug, is_on, plant};

/// Whether a planted bug is on: never, without the feature.
#[cfg(feature = "planted")]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_on($crate::planted::Bug::$bug)
    };
}

/// Whether a planted bug is on: never, without the feature.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}
