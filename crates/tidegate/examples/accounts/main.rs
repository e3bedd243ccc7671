//! Accounts and transfers. An action reads the state of an account, which is folded from its
//! events, and decides new events. Money that leaves one account arrives at the other exactly once,
//! even if engines crash in between.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    collections::BTreeMap,
    future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tidegate::{
    ActError, Engine, Error, Query, Reaction, ReactionCtx, SqliteStore, State, Timestamp,
    testing::{TestHarness, VirtualClock},
};

/// Names of the two accounts' streams.
const ADA: &str = "account-ada";
const BOB: &str = "account-bob";

/// Events of an account. The store records them under these names and fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Moved {
    Opened { owner: String },
    Deposited { amount: u64 },
    Sent { to: String, amount: u64 },
    Received { from: String, amount: u64 },
}

/// State of an account, folded from its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Account {
    owner: Option<String>,
    balance: u64,
}

impl State for Account {
    type Event = Moved;

    fn apply(&mut self, event: &Moved) {
        match event {
            Moved::Opened { owner } => self.owner = Some(owner.clone()),
            Moved::Deposited { amount } | Moved::Received { amount, .. } => self.balance += amount,
            Moved::Sent { amount, .. } => self.balance -= amount,
        }
    }
}

/// Reasons why an account refuses an action.
#[derive(Debug, PartialEq, thiserror::Error)]
enum No {
    #[error("the account is already open")]
    Open,
    #[error("the account was never opened")]
    NotOpen,
    #[error("cannot send {amount}: the balance is {balance}")]
    Overdrawn { balance: u64, amount: u64 },
}

// Each action is a pure function: it gets the account's state and returns new events.

fn open(owner: &str, amount: u64) -> impl FnMut(&Account) -> Result<Vec<Moved>, No> {
    move |account| match account.owner {
        Some(_) => Err(No::Open),
        None => Ok(vec![Moved::Opened { owner: owner.to_owned() }, Moved::Deposited { amount }]),
    }
}

fn send(to: &str, amount: u64) -> impl FnMut(&Account) -> Result<Vec<Moved>, No> {
    move |account| match (&account.owner, account.balance) {
        (None, _) => Err(No::NotOpen),
        (Some(_), balance) if balance < amount => Err(No::Overdrawn { balance, amount }),
        (Some(_), _) => Ok(vec![Moved::Sent { to: to.to_owned(), amount }]),
    }
}

/// Reaction that credits the receiving account. The handler's commits and the ack of the event are
/// written in one transaction: the handler may run twice, but the money arrives once.
fn transfers(runs: &Arc<AtomicUsize>, first_hangs: bool) -> Reaction {
    let runs = runs.clone();
    Reaction::new("transfers").source("account-*").on(move |ctx: ReactionCtx, event: Moved| {
        let runs = runs.clone();
        async move {
            let Moved::Sent { to, amount } = event else { return Ok(()) };
            ctx.commit(&to, [Moved::Received { from: ctx.stream().to_owned(), amount }])?;
            if runs.fetch_add(1, Ordering::SeqCst) == 0 && first_hangs {
                // Hangs until the engine is killed: the money is in transit then.
                future::pending::<()>().await;
            }
            Ok(())
        }
    })
}

async fn balance(engine: &Engine, account: &str) -> Result<u64, Error> {
    Ok(engine.stream::<Account>(account).load().await?.state.balance)
}

/// Reads the whole log and checks after each event that the balances and the money in transit add
/// up to the sum of all deposits. Returns that sum.
async fn audit(engine: &Engine) -> Result<u64, Error> {
    let (mut accounts, mut transit, mut paid) = (BTreeMap::<String, Account>::new(), 0, 0);
    let mut query = Query::family("account-");
    loop {
        let page = engine.streams().read(&query).await?;
        for event in &page.events {
            let moved: Moved = event.read()?;
            accounts.entry(event.stream.clone()).or_default().apply(&moved);
            match moved {
                Moved::Opened { .. } => {}
                Moved::Deposited { amount } => paid += amount,
                Moved::Sent { amount, .. } => transit += amount,
                Moved::Received { amount, .. } => transit -= amount,
            }
            let sum: u64 = accounts.values().map(|account| account.balance).sum();
            assert_eq!(sum + transit, paid, "after position {}", event.position);
        }
        if !page.more {
            assert_eq!(transit, 0, "money is still in transit");
            return Ok(paid);
        }
        query = query.from(page.cursor);
    }
}

/// Makes ten transfers at once. Each is decided on the balance that the earlier transfers left.
async fn ten_at_once(
    engine: &Engine,
    harness: &TestHarness,
) -> Result<(), Box<dyn std::error::Error>> {
    let account = engine.stream::<Account>(ADA);
    let sends = (0..10).map(|_| {
        let account = account.clone();
        tokio::spawn(async move { account.act(send(BOB, 20)).await.is_ok() })
    });
    let mut sent = 0;
    for send in sends.collect::<Vec<_>>() {
        sent += usize::from(send.await?);
    }
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!(sent, 3);
    assert_eq!((balance(engine, ADA).await?, balance(engine, BOB).await?), (10, 110));
    println!("of ten times 20 at once Ada's 70 cover {sent}");
    Ok(())
}

/// Queries the past events: by correlation, by cause, and the state at an earlier time.
async fn look_back(engine: &Engine, noon: Timestamp) -> Result<(), Error> {
    // Both events of a transfer have the same correlation id. The second names the first as its
    // cause.
    let arrived = Query::stream(BOB).named(["Received"]).limit(1);
    let arrived = engine.streams().read(&arrived).await?.events.remove(0);
    let whole = Query::all().correlation(arrived.correlation.clone().expect("each has one"));
    let whole = engine.streams().read(&whole).await?.events;
    let story: Vec<_> = whole.iter().map(|event| (&*event.stream, &*event.name)).collect();
    assert_eq!(story, [(ADA, "Sent"), (BOB, "Received")]);
    assert_eq!(arrived.causation, Some(whole[0].id.to_string()));

    let account = engine.stream::<Account>(ADA);
    assert_eq!(account.load_as_of(noon).await?.state.balance, 100);
    assert_eq!(account.load_at(2).await?.state.balance, 70);
    println!("Ada had 100 at noon, and 70 after her third event");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("tidegate-accounts-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    // A real SQLite file with a virtual clock, so that a minute of the example takes no real time.
    let clock = Arc::new(VirtualClock::default());
    let store = SqliteStore::open(dir.join("bank.db"), clock.clone()).await?;
    let harness = TestHarness::on(Arc::new(store), clock);
    let runs = Arc::new(AtomicUsize::new(0));

    // Polls every second for work left by dead engines: the default outside of a harness.
    let serve = |first_hangs| {
        let reaction = transfers(&runs, first_hangs);
        harness.engine().poll_interval(Duration::from_secs(1)).reaction(reaction)
    };

    let engine = serve(true).start().await?;
    engine.stream::<Account>(ADA).act(open("Ada", 100)).await?;
    engine.stream::<Account>(BOB).act(open("Bob", 20)).await?;
    let noon = harness.now();
    harness.advance(Duration::from_secs(1)).await;

    let refused = engine.stream::<Account>(BOB).act(send(ADA, 50)).await;
    let Err(ActError::Refused(no)) = refused else { panic!("{refused:?}") };
    assert_eq!(no, No::Overdrawn { balance: 20, amount: 50 });
    println!("Bob sends 50: {no}");

    engine.stream::<Account>(ADA).act(send(BOB, 30)).await?;
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!((balance(&engine, ADA).await?, balance(&engine, BOB).await?), (70, 20));
    println!("Ada has sent 30, and the engine dies before Bob has them");
    harness.crash(&engine).await;

    let engine = serve(false).start().await?;
    harness.advance(Duration::from_mins(1)).await;
    assert_eq!((balance(&engine, ADA).await?, balance(&engine, BOB).await?), (70, 50));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    println!("another engine carries them over: the handler ran twice, Bob has 50");

    ten_at_once(&engine, &harness).await?;
    look_back(&engine, noon).await?;
    assert_eq!(audit(&engine).await?, 120);
    println!("120 were paid in, and 120 are there after every single event");
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
