//! `tidegate demo`: a burst meets two workflows, and every decision is printed with its reason.
//!
//! The store is a real SQLite file; the clock is moved by hand, so that a minute of flow control
//! takes a blink and prints the same lines every time.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    sync::Arc,
};

use anyhow::Context;
use serde_json::{Value, json};
use tidegate::{
    core::{
        command::{Answer, Command},
        event::{NewEvent, Outcome, Posted},
        flow::Verdict,
        id::{RunId, Seq},
        json::Payload,
        reads::{ReadSet, Scan},
        row::{Class, EngineId, Row, RowKey, Run, Workspace},
        run::record::{Record, Then},
        time::Timestamp,
        workflow::Workflow,
    },
    store::{Clock, ManualClock, SqliteStore, Store, commit, why},
};

/// Who drives the runs.
const ENGINE: EngineId = 1;

/// How long a run of the demo takes.
const WORK_MS: u64 = 400;

/// Who sends how much, in this order.
const BURST: [(&str, usize); 3] = [("acme", 7), ("globex", 2), ("initech", 1)];

/// Runs the demonstration.
pub(crate) async fn run(out: &mut impl Write) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context("the temporary folder cannot be made")?;
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(0)));
    let store = SqliteStore::open(folder.join("demo.db"), clock.clone()).await?;
    let shown = Demo { store: &store, clock: &clock, ws: "default".into() }.show(out).await;
    drop(store);
    std::fs::remove_dir_all(&folder).context("the temporary folder cannot be removed")?;
    shown
}

/// What was seen while the runs were driven.
#[derive(Default)]
struct Seen {
    runs: usize,
    most_at_once: usize,
}

struct Demo<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    ws: Workspace,
}

impl Demo<'_> {
    async fn show(&self, out: &mut impl Write) -> anyhow::Result<()> {
        writeln!(out, "Two workflows, both triggered by `account.changed`:\n")?;
        let definitions = [
            json!({
                "name": "sync.account",
                "triggers": [{ "event": "account.changed" }],
                "concurrency": { "limit": 1, "key": "account" },
                "rateLimit": { "limit": 5, "perMs": 60_000, "key": "account" },
            }),
            json!({
                "name": "index.account",
                "triggers": [{ "event": "account.changed" }],
                "debounce": { "periodMs": 1000, "key": "account" },
                "concurrency": { "limit": 2 },
            }),
        ];
        let mut lanes = Vec::new();
        for definition in definitions {
            lanes.push(self.define(out, &definition).await?);
        }
        self.store.beat(ENGINE).await?;
        self.ask(Command::Serve { engine: ENGINE, lanes: lanes.clone() }).await?;
        writeln!(out, "\nA burst: acme sends 7 changes, globex 2, initech 1.\n")?;
        let posted = self.burst(out).await?;
        self.explain(out, &posted).await?;
        writeln!(out, "\nA worker drives what is ready; each run takes {WORK_MS} ms:\n")?;
        let seen = self.drive(out, &lanes).await?;
        let (events, dropped) = (posted.len(), of(&posted, "dropped").count());
        let windows: BTreeSet<_> = of(&posted, "coalesced").map(Verdict::run).collect();
        let (runs, merged, most) = (seen.runs, windows.len(), seen.most_at_once);
        writeln!(
            out,
            "\n{events} events: {runs} runs, {merged} of them for whole bursts; {dropped} dropped \
             by the rate limit; at most {most} sync of one account at once."
        )?;
        Ok(())
    }

    async fn define(&self, out: &mut impl Write, definition: &Value) -> anyhow::Result<Seq> {
        let workflow = Workflow::parse(definition)?.value;
        let controls = workflow.flow_control().unwrap_or_default();
        writeln!(out, "  {:14} {controls}", workflow.name)?;
        let (ws, workflow) = (self.ws.clone(), Box::new(workflow));
        let answer = self.ask(Command::Register { ws, workflow, dev: false }).await?;
        let Answer::Registered(registered) = answer else {
            anyhow::bail!("registering was answered {answer:?}");
        };
        Ok(registered.lane)
    }

    async fn burst(&self, out: &mut impl Write) -> anyhow::Result<Vec<Posted>> {
        let mut all = Vec::new();
        for (account, times) in BURST {
            for n in 1..=times {
                let data = Payload::from_value(&json!({ "account": account, "n": n }));
                let name = "account.changed".to_owned();
                let events = vec![NewEvent { name, data, dedupe_id: None, ts: None }];
                let Answer::Posted(posted) =
                    self.ask(Command::Post { ws: self.ws.clone(), events }).await?
                else {
                    anyhow::bail!("posting was answered with something else");
                };
                for outcome in posted.iter().flat_map(|posted| &posted.runs) {
                    let event = format!("{account} {n}");
                    writeln!(out, "  {event:10} {}", line(outcome))?;
                }
                all.extend(posted);
            }
        }
        Ok(all)
    }

    /// `why`, for the last who waits in acme's line.
    async fn explain(&self, out: &mut impl Write, posted: &[Posted]) -> anyhow::Result<()> {
        let outcomes = posted.iter().flat_map(|posted| &posted.runs);
        let queued = outcomes.filter(|outcome| outcome.verdict.outcome() == "queued");
        let acme = queued.filter(|outcome| outcome.verdict.by().is_some_and(|by| by.key == "acme"));
        if let Some(run) = acme.filter_map(|outcome| outcome.verdict.run()).max() {
            let why = why(self.store, &self.ws, run).await??;
            writeln!(out, "\nWhy does {} wait?\n\n  {}", short(run), shorten(&why.sentence))?;
        }
        Ok(())
    }

    async fn drive(&self, out: &mut impl Write, lanes: &[Seq]) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        while let Some(due) = self.next_due(lanes).await? {
            self.clock.set(self.clock.now().max(due));
            self.sweep().await?;
            let runs = self.lease(lanes).await?;
            let mut at_once: BTreeMap<String, usize> = BTreeMap::new();
            for run in &runs {
                let at = self.clock.now().to_string();
                let (account, n) = self.account(run).await?;
                let (name, id) = (&run.workflow, short(run.id));
                let event = format!("{account} {n}");
                writeln!(out, "  {at:>5} ms  {name:14} {event:10} {id} starts")?;
                if run.workflow == "sync.account" {
                    *at_once.entry(account).or_default() += 1;
                }
            }
            let most = at_once.into_values().max().unwrap_or(0);
            seen.most_at_once = seen.most_at_once.max(most);
            self.clock.advance_ms(WORK_MS);
            for run in runs {
                self.complete(run).await?;
                seen.runs += 1;
            }
        }
        Ok(seen)
    }

    /// When there is something to do next: now if a run is ready, else when the next is due.
    async fn next_due(&self, lanes: &[Seq]) -> anyhow::Result<Option<Timestamp>> {
        let ready = ReadSet::default().scan(Scan::Ready(lanes.to_vec()), 1);
        if self.store.read(ready).await?.rows.values().any(Option::is_some) {
            return Ok(Some(self.clock.now()));
        }
        let rows = self.store.dump().await?;
        let gates = rows.iter().filter_map(Row::as_gate);
        let windows = gates.filter(|gate| gate.key.class() == Some(Class::Debounce));
        Ok(windows.filter_map(|gate| gate.due).min())
    }

    async fn sweep(&self) -> anyhow::Result<()> {
        let snapshot = self.store.read(ReadSet::default().scan(Scan::DueGates, 100)).await?;
        for row in snapshot.found(&Scan::DueGates) {
            if let Row::Gate(gate) = row
                && gate.due <= Some(snapshot.now)
            {
                let (ws, gate) = (self.ws.clone(), gate.key.clone());
                self.ask(Command::SweepGate { ws, gate }).await?;
            }
        }
        Ok(())
    }

    async fn lease(&self, lanes: &[Seq]) -> anyhow::Result<Vec<Run>> {
        let (ws, lanes) = (self.ws.clone(), lanes.to_vec());
        let answer = self.ask(Command::Lease { ws, engine: ENGINE, lanes, limit: 100 }).await?;
        let Answer::Leased(runs) = answer else {
            anyhow::bail!("leasing was answered {answer:?}");
        };
        Ok(runs)
    }

    async fn complete(&self, run: Run) -> anyhow::Result<()> {
        let then = Then::Complete(Payload::null());
        let report = Record::new(run.id.seq, ENGINE, run.fence, then);
        self.ask(Command::Record { known: Box::new(run), report }).await?;
        Ok(())
    }

    async fn account(&self, run: &Run) -> anyhow::Result<(String, Value)> {
        let key = RowKey::Event(run.source.first().seq);
        let snapshot = self.store.read(ReadSet::default().row(key.clone())).await?;
        let Some(Some(Row::Event(event))) = snapshot.rows.get(&key) else {
            anyhow::bail!("the event of {} is missing", run.id);
        };
        let data: Value = serde_json::from_str(event.data.as_str())?;
        Ok((data["account"].as_str().unwrap_or_default().to_owned(), data["n"].clone()))
    }

    async fn ask(&self, command: Command) -> anyhow::Result<Answer> {
        let answers = commit(self.store, vec![(command, 0)]).await?;
        Ok(answers.into_iter().next().context("one answer for one command")??)
    }
}

/// One outcome as people read it.
fn line(outcome: &Outcome) -> String {
    let mut told = outcome.verdict.to_value();
    let fields = told.as_object_mut().map(std::mem::take).unwrap_or_default();
    let skip = ["outcome", "dropped", "skipped", "deduped", "runId", "control", "key"];
    let rest: Vec<_> = fields.iter().filter(|(name, _)| !skip.contains(&name.as_str())).collect();
    let rest = rest.iter().map(|(name, value)| format!(" {name} {}", ms(value)));
    let by = outcome.verdict.by().map(|by| format!(" by {} of {}", by.control, by.key));
    let run = outcome.verdict.run().map(|run| format!(" {}", short(run))).unwrap_or_default();
    let (name, word) = (&outcome.workflow, outcome.verdict.outcome());
    format!("{name:14} {word:9}{run}{}{}", by.unwrap_or_default(), rest.collect::<String>())
}

/// A moment of the demo's clock in milliseconds; anything else as it is.
fn ms(value: &Value) -> String {
    let at = value.as_str().and_then(Timestamp::parse_rfc3339);
    at.map_or(value.to_string(), |at| format!("{at} ms"))
}

/// The verdicts of one kind.
fn of<'a>(posted: &'a [Posted], outcome: &'a str) -> impl Iterator<Item = &'a Verdict> {
    let verdicts = posted.iter().flat_map(|posted| &posted.runs).map(|told| &told.verdict);
    verdicts.filter(move |verdict| verdict.outcome() == outcome)
}

/// A run's id without the zeros that pad it.
fn short(run: RunId) -> String {
    format!("run {}", run.seq)
}

fn shorten(sentence: &str) -> String {
    let word = |word: &str| {
        let id = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        id.parse().map_or(word.to_owned(), |run| short(run) + &word[id.len()..])
    };
    sentence.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    /// The README's first command says who started, waited, merged and was dropped, and why.
    #[tokio::test]
    async fn the_demonstration_prints_every_decision_with_its_reason() {
        let mut out = Vec::new();
        super::run(&mut out).await.unwrap();
        expect![[r#"
            Two workflows, both triggered by `account.changed`:

              sync.account   {"concurrency":{"key":"account","limit":1},"rateLimit":{"key":"account","limit":5,"perMs":60000}}
              index.account  {"concurrency":{"limit":2},"debounce":{"key":"account","periodMs":1000}}

            A burst: acme sends 7 changes, globex 2, initech 1.

              acme 1     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 1     sync.account   started   run 12294
              acme 2     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 2     sync.account   queued    run 16387 by concurrency of acme
              acme 3     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 3     sync.account   queued    run 20483 by concurrency of acme
              acme 4     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 4     sync.account   queued    run 24579 by concurrency of acme
              acme 5     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 5     sync.account   queued    run 28675 by concurrency of acme
              acme 6     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 6     sync.account   dropped   by rateLimit of acme retryAt 12000 ms
              acme 7     index.account  coalesced run 12290 by debounce of acme fireAt 1000 ms
              acme 7     sync.account   dropped   by rateLimit of acme retryAt 12000 ms
              globex 1   index.account  coalesced run 40962 by debounce of globex fireAt 1000 ms
              globex 1   sync.account   started   run 40966
              globex 2   index.account  coalesced run 40962 by debounce of globex fireAt 1000 ms
              globex 2   sync.account   queued    run 45059 by concurrency of globex
              initech 1  index.account  coalesced run 49154 by debounce of initech fireAt 1000 ms
              initech 1  sync.account   started   run 49158

            Why does run 28675 wait?

              it waits for concurrency of acme (1 at once), place 4 in line; what frees it is the end of run 12294

            A worker drives what is ready; each run takes 400 ms:

                  0 ms  sync.account   acme 1     run 12294 starts
                  0 ms  sync.account   globex 1   run 40966 starts
                  0 ms  sync.account   initech 1  run 49158 starts
                400 ms  sync.account   acme 2     run 16387 starts
                400 ms  sync.account   globex 2   run 45059 starts
                800 ms  sync.account   acme 3     run 20483 starts
               1200 ms  sync.account   acme 4     run 24579 starts
               1200 ms  index.account  acme 7     run 12290 starts
               1200 ms  index.account  globex 2   run 40962 starts
               1600 ms  sync.account   acme 5     run 28675 starts
               1600 ms  index.account  initech 1  run 49154 starts

            10 events: 11 runs, 3 of them for whole bursts; 2 dropped by the rate limit; at most 1 sync of one account at once.
        "#]].assert_eq(&String::from_utf8(out).unwrap());
    }
}
