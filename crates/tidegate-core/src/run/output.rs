//! Streamed output: what a run emits while it is driven, and how far it says that it is.
//!
//! A chunk is known by its step, attempt and place there, so that a worker which repeats itself,
//! or another which does the same again, changes nothing.

use super::record::Record;
use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    json::Payload,
    row::{Chunk, Progress, RowKey, Run},
};

/// The largest chunk: what a follower has to take at once.
pub const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// The most chunks of a run: what a follower that comes late has to read.
pub const MAX_CHUNKS: u32 = 10_000;

/// How much of a progress text is kept: it is written with every change of its run.
pub const MAX_PROGRESS_BYTES: usize = 256;

/// Something that a run emits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// The step that emits it; empty for the handler itself.
    pub step: String,
    /// The step's attempt; the same at every replay of the handler.
    pub attempt: u32,
    /// Its place in that attempt, from 0.
    pub n: u32,
    /// What it is.
    pub data: Payload,
}

/// Keeps what a report brings of a run's output.
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

/// Within its bounds: a status is never a reason to fail.
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
