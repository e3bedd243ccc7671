//! Rows of sessions, and of session operations that a run has staged.

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    id::Seq,
    json::Payload,
    key::{Decimal, Path},
};

/// State of one session: a JSON document. A session that was never written has no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The workspace.
    pub ws: Workspace,
    /// The flow's app.
    pub app: String,
    /// The flow.
    pub flow: String,
    /// The session's id, as in requests.
    pub id: String,
    /// The version: the number of times that the document has changed.
    pub version: i64,
    /// The document.
    pub body: Payload,
}

/// Key of a session within a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionRef {
    /// The flow's app.
    pub app: String,
    /// The flow.
    pub flow: String,
    /// The session's id, as in requests.
    pub id: String,
}

/// Operation on a session's document. No path means the whole document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionOp {
    /// Reads the value at the path; `null` if there is none.
    Get {
        /// The path.
        path: Option<Path>,
    },
    /// Sets the value at the path, and creates missing objects of the path.
    Set {
        /// The path.
        path: Option<Path>,
        /// The value.
        value: Payload,
    },
    /// Merges an object into the object at the path, as in RFC 7396: `null` removes a member.
    Merge {
        /// The path.
        path: Option<Path>,
        /// The object to merge.
        value: Payload,
    },
    /// Appends a value to the list at the path.
    Append {
        /// The path.
        path: Option<Path>,
        /// The value.
        value: Payload,
    },
    /// Adds to the number at the path, without rounding.
    Increment {
        /// The path.
        path: Option<Path>,
        /// The increment.
        by: Decimal,
    },
}

impl SessionOp {
    /// Returns the operation's name.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get { .. } => "get",
            Self::Set { .. } => "set",
            Self::Merge { .. } => "merge",
            Self::Append { .. } => "append",
            Self::Increment { .. } => "increment",
        }
    }

    /// Returns the operation's path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Get { path }
            | Self::Set { path, .. }
            | Self::Merge { path, .. }
            | Self::Append { path, .. }
            | Self::Increment { path, .. } => path.as_ref(),
        }
    }
}

/// Session operation that a run with the policy `restart` has staged; one row per operation.
///
/// The rows belong to the run and are written and deleted under its lock. The run's row has their
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The run.
    pub run: Seq,
    /// The position among the run's operations, from 0 without a gap.
    pub n: u32,
    /// The session.
    pub session: SessionRef,
    /// The operation.
    pub op: SessionOp,
    /// The stored version of the document at that time; staged operations are not counted.
    pub version: i64,
    /// For a read: the stored value at the path, without the run's own staged operations. None if
    /// an earlier read of the same path and version has it already.
    pub seen: Option<Payload>,
}
