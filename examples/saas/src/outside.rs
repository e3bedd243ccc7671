//! External services: mail, booking systems, a language model. Here they only record their calls,
//! so that tests can check them. A real program has clients here.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate::{Result, StepError};

/// Clients of all services. Cheap to clone; handlers get it with `ctx.state::<Outside>()`.
#[derive(Clone, Debug, Default)]
pub struct Outside(Arc<Mutex<Vec<String>>>);

/// Answer of the model: text, or a tool that it wants to use first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Words of the answer, in order.
    pub words: Vec<String>,
    /// Tool to call, if the answer is not final.
    pub tool: Option<String>,
}

impl Outside {
    /// Returns the calls so far, oldest first.
    pub fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls a service. By the idempotency key, the service recognises a repeated call.
    pub async fn call(&self, what: &str, _idempotency_key: &str) -> Result<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
        match what {
            "book hotel in Atlantis" => {
                Err(StepError::coded("NoSuchPlace", "there is no hotel in Atlantis").fatal())
            }
            what => Ok(format!("{what}: done")),
        }
    }

    /// Calls the model. For the first message it requests a tool; with the tool's result it
    /// answers.
    pub async fn complete(&self, messages: &[String]) -> Result<Reply> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Ok(match messages {
            [question] => {
                Reply { words: words("Let me see."), tool: Some(format!("search {question}")) }
            }
            [.., found] => Reply { words: words(&format!("I found: {found}")), tool: None },
            [] => return Err(StepError::coded("NoQuestion", "there is no message").fatal()),
        })
    }
}
