//! Differential test: runs one seeded workload of all commands on every store. All stores must give
//! the same answers and end with the same rows.

use std::sync::Arc;

use tidegate_core::time::Timestamp;
use tidegate_store::{
    ManualClock, MemoryStore, PostgresOptions, PostgresStore, SqliteStore, Store,
};
use tidegate_testkit::{
    postgres,
    workload::{Chance, Move, Player, seeds},
};

const SEEDS: u64 = 20;
const MOVES: usize = 300;

/// Number of operations between two comparisons of all rows.
const EVERY: usize = 50;

/// Number of seeds on PostgreSQL: fewer, because every transaction takes two round trips and a
/// flush.
const POSTGRES_SEEDS: u64 = 4;

#[tokio::test]
async fn every_store_answers_alike() {
    for seed in seeds(SEEDS) {
        let mut players = vec![("memory", memory().await), ("SQLite", sqlite().await)];
        if seeds(POSTGRES_SEEDS).contains(&seed) {
            players.extend(postgres().await.map(|player| ("PostgreSQL", player)));
        }
        play(seed, &mut players).await;
    }
}

#[tokio::test]
async fn commands_in_one_transaction_come_to_the_same_as_one_by_one() {
    for seed in seeds(SEEDS) {
        one_by_one(seed).await;
    }
}

/// Runs the same operations in the same transactions on every store, and compares the answers and
/// the rows.
async fn play(seed: u64, players: &mut [(&str, Player)]) {
    let mut chance = Chance::new(seed);
    let mut next_dump = EVERY;
    let mut done = 0;
    while done < MOVES {
        let moves = chance.group();
        done += moves.len();
        let mut answer = Vec::new();
        for (name, player) in players.iter_mut() {
            answer.push((*name, step(player, &moves, true).await));
        }
        agree(seed, &format!("the answers to operations up to {done} differ: {moves:?}"), &answer);
        if done >= next_dump || done >= MOVES {
            next_dump += EVERY;
            let mut dumps = Vec::new();
            for (name, player) in players.iter_mut() {
                player.check().await;
                dumps.push((*name, player.dump().await));
            }
            agree(seed, &format!("the rows differ after {done} operations"), &dumps);
        }
    }
}

/// Runs the same operations on two stores: groups in one transaction, and each in its own.
///
/// Answers and rows must be the same, because in both cases each command is decided on the rows
/// that the previous one left, at the same time. Only sequence numbers differ, because each
/// transaction has its own block, but their order is the same. Epochs are not compared: they count
/// transactions (ADR 22).
async fn one_by_one(seed: u64) {
    let (mut together, mut apart) = (memory().await, memory().await);
    let mut chance = Chance::new(seed);
    let mut done = 0;
    while done < MOVES {
        let moves = chance.group();
        done += moves.len();
        // The estimate of a turn in a fair queue counts the runs before it as they are read.
        let answer = [
            ("one by one", without_estimates(step(&mut apart, &moves, false).await)),
            ("together", without_estimates(step(&mut together, &moves, true).await)),
        ];
        agree(seed, &format!("the answers to operations up to {done} differ: {moves:?}"), &answer);
        let states = [("one by one", apart.states().await), ("together", together.states().await)];
        agree(seed, &format!("the states differ after {done} operations: {moves:?}"), &states);
    }
    let mut dumps = [("one by one", apart.dump().await), ("together", together.dump().await)];
    for (_, rows) in &mut dumps {
        rows.retain(|row| !row.starts_with("Epoch("));
    }
    agree(seed, "the rows differ at the end", &dumps);
}

async fn step(player: &mut Player, moves: &[Move], together: bool) -> Vec<String> {
    if moves.iter().all(Move::is_command) {
        return player.play(moves, together).await;
    }
    player.wait(&moves[0]).await;
    Vec::new()
}

/// Removes the times of `startAt`, which are estimates (spec M1).
fn without_estimates(answers: Vec<String>) -> Vec<String> {
    let estimate = "start_at: Some(";
    let without = |answer: String| {
        let mut parts = answer.split(estimate);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |out, part| out + estimate + part.trim_start_matches(|c| c != ')'))
    };
    answers.into_iter().map(without).collect()
}

/// Fails if the texts of the stores differ. Prints the first line that differs, and the command
/// that repeats the test.
fn agree(seed: u64, when: &str, all: &[(&str, Vec<String>)]) {
    let (name, expected) = &all[0];
    for (other, got) in &all[1..] {
        let same = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
        assert!(
            expected == got,
            "{when}\n{name}: {:?}\n{other}: {:?}\nTIDEGATE_SEED={seed} cargo test -p tidegate-testkit --test differential",
            expected.get(same),
            got.get(same),
        );
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)))
}

async fn memory() -> Player {
    let clock = clock();
    Player::new(Arc::new(MemoryStore::new(clock.clone())), clock).await
}

async fn sqlite() -> Player {
    let clock = clock();
    let store = SqliteStore::in_memory(clock.clone()).await.expect("SQLite opens");
    Player::new(Arc::new(store), clock).await
}

async fn postgres() -> Option<Player> {
    let clock = clock();
    let options = PostgresOptions {
        schema: postgres::fresh_schema("differential"),
        clock: Some(clock.clone()),
        committers: 1,
        readers: 1,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::open(postgres::url()?, options).await.expect("PostgreSQL opens");
    let store: Arc<dyn Store> = Arc::new(store);
    Some(Player::new(store, clock).await)
}
