//! Output of a run before it ends: chunks and progress.

use serde::Serialize;
use tidegate_core::{
    row::Progress,
    run::output::{MAX_CHUNK_BYTES, NewChunk},
};

use super::Ctx;
use crate::{
    handler::write,
    step_error::{Result, StepError},
};

impl Ctx {
    /// Emits a chunk of output for subscribers of the run. Chunks are durable and in order, and
    /// each is emitted once, however often the handler is replayed.
    ///
    /// A step that is retried emits its chunks again, marked with the new attempt.
    pub fn emit(&self, chunk: impl Serialize) -> Result<()> {
        let data = write(&chunk)?;
        let size = data.as_str().len();
        if size > MAX_CHUNK_BYTES {
            let message = format!("a chunk has at most {MAX_CHUNK_BYTES} bytes, got {size}");
            return Err(StepError::coded("ChunkTooLarge", message).fatal());
        }
        let mut state = self.activation_state();
        let step = state.scope().unwrap_or_default();
        let attempt = if step.is_empty() { 0 } else { state.failures(&step) + 1 };
        let n = state.next_chunk(&step);
        state.emit(NewChunk { step, attempt, n, data });
        Ok(())
    }

    /// Sets the progress of the run, from 0 to 1, with a text.
    ///
    /// Each call overwrites the previous one.
    pub fn progress(&self, fraction: f64, text: impl Into<String>) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number from 0 to 1000"
        )]
        let permille = (fraction.clamp(0.0, 1.0) * 1000.0).round() as u32;
        self.activation_state().set_progress(Progress { permille, text: text.into() });
    }
}
