//! Streamed output: the chunks of a run are stored once and in order, up to a limit.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    id::RunId,
    reads::{ReadSet, Scan},
    row::{Chunk, Progress, Row, Run},
    run::{
        output::{MAX_CHUNK_BYTES, MAX_CHUNKS, NewChunk},
        record::{Record, Recorded, Then},
    },
};

use crate::world::{World, payload, step};

fn chunk(step: &str, attempt: u32, n: u32, data: &Value) -> NewChunk {
    NewChunk { step: step.to_owned(), attempt, n, data: payload(data) }
}

fn report(run: &Run, then: Then) -> Record {
    Record::new(run.id.seq, run.owner.unwrap_or_default(), run.fence, then)
}

async fn say(world: &World, run: &Run, report: Record) -> Result<Recorded, Refusal> {
    match world.run(Command::Record { known: Box::new(run.clone()), report }).await? {
        Answer::Recorded(recorded) => Ok(recorded),
        other => panic!("unexpected answer to a report: {other:?}"),
    }
}

async fn emit(world: &World, run: &Run, chunks: Vec<NewChunk>) -> Result<Recorded, Refusal> {
    say(world, run, Record { chunks, ..report(run, Then::Continue) }).await
}

async fn emitted(world: &World, run: RunId, after: u32) -> Vec<Chunk> {
    let scan = Scan::Chunks(run.seq, after);
    let snapshot = world.read(ReadSet::default().scan(scan.clone(), MAX_CHUNKS)).await;
    let rows = snapshot.found(&scan).into_iter();
    rows.filter_map(|row| if let Row::Chunk(it) = row { Some(it.clone()) } else { None }).collect()
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.data.as_str()).collect()
}

/// spec transports, steps: chunks are stored in the order in which they were emitted, each once,
/// even if reports are repeated. They remain after the end of the run.
pub async fn what_a_run_emits_is_kept_once_and_in_order(world: &World) {
    world.define(json!({ "name": "chat" })).await;
    let run = world.drive("chat", json!({})).await;
    let first = vec![chunk("", 0, 0, &json!("a")), chunk("reply", 1, 0, &json!("b"))];
    assert_eq!(emit(world, &run, first.clone()).await, Ok(Recorded::GoOn));
    // The worker got no answer, and repeats the chunks with one more.
    let again = [first, vec![chunk("reply", 1, 1, &json!("c"))]].concat();
    assert_eq!(emit(world, &run, again).await, Ok(Recorded::GoOn));
    let chunks = emitted(world, run.id, 0).await;
    assert_eq!(texts(&chunks), [r#""a""#, r#""b""#, r#""c""#]);
    assert_eq!(chunks.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), [1, 2, 3]);
    // The worker dies, and another emits the same chunk numbers with other content, which is
    // ignored.
    world.lose(world.engine).await;
    let other = world.engine(2);
    let taken = other.lease_one().await;
    let replayed = vec![
        chunk("", 0, 0, &json!("other")),
        chunk("reply", 2, 0, &json!("d")),
        chunk("", 0, 1, &json!("e")),
    ];
    let late = emit(world, &run, replayed.clone()).await;
    assert_eq!(late, Err(Refusal::Fenced { run: run.id.seq, fence: run.fence }));
    let done = Then::Complete(payload(&json!("done")));
    let last = Record {
        chunks: replayed,
        steps: vec![step("reply", &json!("bc"))],
        ..report(&taken, done)
    };
    assert_eq!(say(&other, &taken, last).await, Ok(Recorded::LetGo));
    let rest = emitted(world, run.id, 3).await;
    assert_eq!(texts(&rest), [r#""d""#, r#""e""#], "a reader must continue after its last chunk");
    assert_eq!(emitted(world, run.id, 0).await.len(), 5);
}

/// Output over a limit is refused with the name of the limit, and nothing of it is stored.
pub async fn output_has_bounds(world: &World) {
    world.define(json!({ "name": "chat" })).await;
    let run = world.drive("chat", json!({})).await;
    let fits = json!("x".repeat(MAX_CHUNK_BYTES - 2));
    assert_eq!(emit(world, &run, vec![chunk("", 0, 0, &fits)]).await, Ok(Recorded::GoOn));
    let large = json!("x".repeat(MAX_CHUNK_BYTES - 1));
    let refused = emit(world, &run, vec![chunk("", 0, 1, &json!(1)), chunk("s", 0, 7, &large)]);
    let refused = refused.await.expect_err("it is too large");
    assert_eq!((refused.code(), emitted(world, run.id, 0).await.len()), ("chunk_too_large", 1));
    assert!(refused.to_string().contains("chunk 7 of step `s` has 65537 bytes"), "{refused}");
    let many = |from: u32, to| (from..to).map(|n| chunk("", 0, n, &json!(n))).collect();
    for from in (0..MAX_CHUNKS).step_by(2000) {
        assert_eq!(emit(world, &run, many(from, from + 2000)).await, Ok(Recorded::GoOn));
    }
    let refused = emit(world, &run, many(MAX_CHUNKS, MAX_CHUNKS + 1)).await;
    assert_eq!(refused, Err(Refusal::TooManyChunks(run.id)));
    let repeated = emit(world, &run, many(0, 3)).await;
    assert_eq!(repeated, Ok(Recorded::GoOn), "a chunk that is stored already was counted again");
    assert_eq!(emitted(world, run.id, 0).await.len(), MAX_CHUNKS as usize);
    world.complete(&run).await;
}

/// Progress is a field of the run: the last value stays, also while the run sleeps.
pub async fn the_last_progress_stays(world: &World) {
    world.define(json!({ "name": "import" })).await;
    let run = world.drive("import", json!({})).await;
    assert_eq!(world.live(run.id).await.and_then(|run| run.progress), None);
    for permille in [250, 750] {
        let progress = Some(Progress { permille, text: format!("{permille} of 1000") });
        let report = Record { progress, ..report(&run, Then::Continue) };
        assert_eq!(say(world, &run, report).await, Ok(Recorded::GoOn));
    }
    world.sleep(&run, "nap", 10).await;
    let progress = world.live(run.id).await.and_then(|run| run.progress);
    let last = Progress { permille: 750, text: "750 of 1000".to_owned() };
    assert_eq!(progress, Some(last));
}
