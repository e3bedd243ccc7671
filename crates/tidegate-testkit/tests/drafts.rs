//! Tests that a command that is refused or postponed adds no change to the decision of its batch.
//!
//! Each batch of the seeded workload is decided twice on the same rows: with all its commands, and
//! with only those that were answered and not refused. The changes must be the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tidegate_core::{
    command::{Answer, Batch, Command, decide, probe},
    reads::{Change, Snapshot},
    row::{Class, Row, RowKey},
    time::Timestamp,
};
use tidegate_store::{Answered, Decision, ManualClock, MemoryStore, SeededCommand};
use tidegate_testkit::workload::{Chance, Move, Player, seeds};

const SEEDS: u64 = 20;
const MOVES: usize = 300;

/// spec A2: a command of a batch that is refused, or that goes into the next transaction, changes
/// no row.
#[tokio::test]
async fn a_batch_changes_only_what_it_has_answered_for() {
    for seed in seeds(SEEDS) {
        let again = format!("TIDEGATE_SEED={seed} cargo test -p tidegate-testkit --test drafts");
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)));
        let mut player = Player::new(Arc::new(MemoryStore::new(clock.clone())), clock).await;
        let mut chance = Chance::new(seed);
        let mut done = 0;
        while done < MOVES {
            let moves = chance.group();
            done += moves.len();
            if moves.iter().all(Move::is_command) {
                let commands = player.commands(&moves).await;
                let (changes, answers, snapshot) = decided(&player, commands.clone()).await;
                check_batch(&commands, &changes, &answers, snapshot, &again);
                player.carry_out(commands).await;
            } else {
                player.wait(&moves[0]).await;
            }
        }
    }
}

type Decided = (Vec<Change>, Vec<Option<Answered>>, Snapshot);

/// Returns the decision of a batch, and all the rows that it was decided on. Writes no row.
async fn decided(player: &Player, commands: Vec<SeededCommand>) -> Decided {
    let (catalogs, at) = (player.store().catalogs(), Timestamp::from_micros(0));
    let reads = probe(&commands, &catalogs, &Arc::default(), at);
    let seen = Arc::new(Mutex::new(None));
    let slot = seen.clone();
    let look = Box::new(move |snapshot: Snapshot| match decide(&commands, snapshot.clone()) {
        Batch::Decided(changes, answers) => {
            *slot.lock().expect("no thread panicked") = Some((changes, answers, snapshot));
            Decision::Apply(Vec::new())
        }
        Batch::Need(reads, snapshot) => Decision::Need(reads, snapshot),
    });
    player.store().transact(reads, look).await.expect("the store works");
    let seen = seen.lock().expect("no thread panicked").take();
    seen.expect("the batch was decided")
}

fn check_batch(
    commands: &[SeededCommand],
    changes: &[Change],
    answers: &[Option<Answered>],
    snapshot: Snapshot,
    again: &str,
) {
    let keys: BTreeSet<RowKey> = changes.iter().map(Change::key).collect();
    assert_eq!(keys.len(), changes.len(), "a row has more than one change; repeat: {again}");
    let done = |answer: &Option<Answered>| matches!(answer, Some(Ok(_)));
    let kept = commands.iter().zip(answers).filter(|(_, answer)| done(answer));
    let kept: Vec<SeededCommand> = kept.map(|(command, _)| command.clone()).collect();
    let Batch::Decided(alone, _) = decide(&kept, snapshot) else {
        panic!("the accepted commands alone need more rows; repeat: {again}");
    };
    let differ = "the changes differ without the refused commands";
    assert_eq!(changes, alone, "{differ}: {commands:?}\nanswers: {answers:?}\nrepeat: {again}");
    if let ([(Command::Post { .. }, _)], [Some(Ok(Answer::Posted(posted)))]) = (commands, answers) {
        let refused = |outcome: &tidegate_core::event::Outcome| outcome.verdict.run().is_none();
        // An event that comes after the deadline of a fold flushes it, also if it is refused.
        // One that matches `cancelOn` ends a run, and a deferred one leaves a chore.
        let does_more = |key: &RowKey| is_fold(key) || matches!(key, RowKey::Chore(_));
        if !keys.iter().any(does_more)
            && !changes.iter().any(cancels)
            && posted.iter().all(|it| it.woke == 0 && it.runs.iter().all(refused))
        {
            let only = keys.iter().all(is_record);
            assert!(only, "a refused event changed other rows: {changes:?}\nrepeat: {again}");
        }
    }
}

/// Whether a change is the receipt of a run that an event of `cancelOn` has cancelled.
fn cancels(change: &Change) -> bool {
    let Change::Insert(Row::Receipt(receipt)) = change else { return false };
    receipt.verdict["control"] == "cancelOn"
}

fn is_fold(key: &RowKey) -> bool {
    use Class::{Batch, Debounce, Gather, Quiet};
    let RowKey::Gate(gate) = key else { return false };
    matches!(gate.class(), Some(Debounce | Batch | Quiet | Gather))
}

/// Returns whether a row is the record of an event that every control refused: the event, its
/// receipt or its `dedupeId`.
fn is_record(key: &RowKey) -> bool {
    let dedupe = matches!(key, RowKey::Gate(gate) if gate.class() == Some(Class::Dedupe));
    dedupe || matches!(key, RowKey::Event(_) | RowKey::Receipt(_))
}
