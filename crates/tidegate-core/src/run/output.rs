//! Streamed output: the chunks that a run emits while it is driven, and its progress.
//!
//! A chunk is identified by its step, its attempt and its position in the attempt. So it is stored
//! once, even if a worker repeats a report or another worker repeats the work.

use super::record::Record;
use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    json::Payload,
    row::{Chunk, Progress, RowKey, Run},
};

/// Maximum size of a chunk. A client that follows the output receives it as a whole.
pub const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// Maximum number of chunks of a run. A client that begins late has to read all of them.
pub const MAX_CHUNKS: u32 = 10_000;

/// Maximum length of a progress text. It is part of the run's row, which is written often.
pub const MAX_PROGRESS_BYTES: usize = 256;

/// Chunk that a run emits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// The step that emits the chunk; empty if the handler emits it outside all steps.
    pub step: String,
    /// The attempt of the step. It does not change when the handler is replayed.
    pub attempt: u32,
    /// The chunk's position in the attempt, from 0.
    pub n: u32,
    /// The payload.
    pub data: Payload,
}

/// Writes the chunks and the progress of a report.
pub fn write(draft: &mut Draft, mut run: Run, report: &Record) -> Decided<()> {
    if report.chunks.is_empty() && report.progress.is_none() {
        return Ok(());
    }
    for NewChunk { step, attempt, n, data } in report.chunks.clone() {
        let (of, bytes) = (run.id.seq, data.as_str().len());
        if draft.row::<Refusal>(&RowKey::Chunk(of, step.clone(), attempt, n))?.is_some() {
            continue;
        }
        if bytes > MAX_CHUNK_BYTES {
            return Err(Stop::Refused(Refusal::ChunkTooLarge { step, n, bytes }));
        }
        if run.chunks >= MAX_CHUNKS {
            return Err(Stop::Refused(Refusal::TooManyChunks(run.id)));
        }
        run.chunks += 1;
        draft.put(Chunk { run: of, step, attempt, n, seq: run.chunks, data });
    }
    if let Some(progress) = &report.progress {
        run.progress = Some(cut(progress));
    }
    draft.put(run);
    Ok(())
}

/// Limits the values of progress. Values that are too large are not an error, because progress is
/// only information.
fn cut(progress: &Progress) -> Progress {
    let text = &progress.text;
    let end = text.floor_char_boundary(MAX_PROGRESS_BYTES);
    Progress { permille: progress.permille.min(1000), text: text[..end].to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_kept_within_its_bounds() {
        let long = "é".repeat(MAX_PROGRESS_BYTES);
        let odd = format!("x{long}");
        for (permille, text, kept) in [(500, "half", 4), (1001, &long, 256), (0, &odd, 255)] {
            let cut = cut(&Progress { permille, text: text.to_owned() });
            assert_eq!((cut.permille, cut.text.len()), (permille.min(1000), kept));
        }
    }
}
