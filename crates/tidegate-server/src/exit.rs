//! What the exit status says.

use std::{fmt, io, process::ExitCode};

/// Why a command did not do what it was asked for, where scripts tell it from other reasons.
/// 1 is everything else, and 2 is a command line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 3: there is no such thing.
    NotFound(String),
    /// 4: nobody answers.
    Unreachable(String),
    /// 5: the key is missing, or not good for this.
    Forbidden(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotFound(text) | Self::Unreachable(text) | Self::Forbidden(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Failure {}

/// Whether an error says that nobody reads the output any more. Errors of connections are of other
/// types.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error: Option<&io::Error> = error.downcast_ref();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The exit status for an error.
pub(crate) fn status(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(Failure::NotFound(_)) => 3.into(),
        Some(Failure::Unreachable(_)) => 4.into(),
        Some(Failure::Forbidden(_)) => 5.into(),
        None => ExitCode::FAILURE,
    }
}
