//! Streamed output: the chunks that a run emits while it is driven, and its progress.
//!
//! A chunk is identified by its step, attempt and position there, so that a worker which repeats a
//! report, or another worker which repeats the work, changes nothing.

use super::record::Record;
use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    json::Payload,
    row::{Chunk, Progress, RowKey, Run},
};

/// Maximum size of a chunk: a follower has to take it at once.
pub const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// Maximum number of chunks of a run: a follower that joins late has to read them all.
pub const MAX_CHUNKS: u32 = 10_000;

/// Maximum length of a progress text: it is written with every change of its run.
pub const MAX_PROGRESS_BYTES: usize = 256;

/// Chunk that a run emits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// The step that emits the chunk; empty for the handler itself.
    pub step: String,
    /// The step's attempt; the same at every replay of the handler.
    pub attempt: u32,
    /// The chunk's position in that attempt, from 0.
    pub n: u32,
    /// The payload.
    pub data: Payload,
}

/// Writes the output in a report.
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

/// Cuts progress to its bounds: a status is never a reason to fail.
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
