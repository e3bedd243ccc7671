//! Exit statuses of the commands.

use std::{fmt, io, process::ExitCode};

/// A failure of a command that has its own exit status, so that scripts can recognize it. Status 1
/// is every other failure, and 2 an invalid command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 3: the named thing does not exist.
    NotFound(String),
    /// 4: the server cannot be reached.
    Unreachable(String),
    /// 5: the API key is missing or not sufficient.
    Forbidden(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotFound(text) | Self::Unreachable(text) | Self::Forbidden(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Failure {}

/// Whether an error says that the reader of our output has closed the pipe. Errors of network
/// connections have other types.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error: Option<&io::Error> = error.downcast_ref();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns the exit status of an error.
pub(crate) fn status(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(Failure::NotFound(_)) => 3.into(),
        Some(Failure::Unreachable(_)) => 4.into(),
        Some(Failure::Forbidden(_)) => 5.into(),
        None => ExitCode::FAILURE,
    }
}
