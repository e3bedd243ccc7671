//! Checks of the tables with plain SQL.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::id::{RunId, Seq};
use tokio_postgres::{Client, Error, IsolationLevel, NoTls, Row};

use super::{
    Contest, NO_KEY, STEPS, WORKSPACE,
    drives::{self, Drive, Story},
    journal::Note,
    limits::Holders,
    place_of,
    script::Script,
    step_of,
};

/// Opens a separate connection.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it listens");
    tokio::spawn(connection);
    client
}

/// One sample of the gates and runs, and its violations.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The violations.
    pub wrong: Vec<String>,
    /// The maximum number of units in a gate.
    pub most: usize,
    /// Engines that own a run.
    pub owners: BTreeSet<String>,
    /// The holders of each gate.
    pub holders: Holders,
}

/// Reads all gates and all runs that hold one.
pub async fn sample(client: &mut Client, schema: &str, contest: Contest) -> Result<Sample, Error> {
    let look = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    look.execute("select set_config('search_path', $1, true)", &[&schema]).await?;
    let gates = "select encode(gate.key, 'hex'),
                        array(select hold ->> 'run'
                                from jsonb_array_elements(state::jsonb -> 'slots' -> 'holders') hold),
                        array(select coalesce((hold ->> 'cost')::bigint, 1)
                                from jsonb_array_elements(state::jsonb -> 'slots' -> 'holders') hold)
                   from gate
                  where key >= $1 and key < $2";
    let runs = "select body ->> 'id', body -> 'needs' -> 0 ->> 'gate',
                       coalesce((body ->> 'has')::bigint, 0), owner
                  from (select body::jsonb, owner from run) run
                 where (body ->> 'has')::bigint > 0 or owner is not null";
    let mut first = u16::try_from(WORKSPACE.len()).expect("short").to_be_bytes().to_vec();
    first.extend(WORKSPACE.as_bytes());
    first.push(contest.class() as u8);
    let mut end = first.clone();
    *end.last_mut().expect("not empty") += 1;
    let gates = look.query(gates, &[&first, &end]).await?;
    let runs = look.query(runs, &[]).await?;
    look.commit().await?;
    Ok(judge(&gates, &runs, contest.most()))
}

/// Checks that gates and runs agree on the holders, and that no gate has more units inside than its
/// limit.
fn judge(gates: &[Row], runs: &[Row], limit: usize) -> Sample {
    let mut sample = Sample::default();
    let mut held: BTreeSet<(String, String)> = BTreeSet::new();
    for gate in gates {
        let (key, holders): (String, Vec<String>) = (gate.get(0), gate.get(1));
        let costs: Vec<usize> =
            gate.get::<_, Vec<i64>>(2).into_iter().filter_map(|it| it.try_into().ok()).collect();
        let units = costs.iter().sum();
        let inside = holders.iter().cloned().zip(costs);
        sample.holders.insert(key.clone(), inside.collect());
        sample.most = sample.most.max(units);
        if units > limit {
            let message = format!("gate {key} has {units} units inside, over the limit");
            sample.wrong.push(format!("{message}: {holders:?}"));
        }
        for run in holders {
            if !held.insert((key.clone(), run.clone())) {
                sample.wrong.push(format!("gate {key} lists the holder {run} twice"));
            }
        }
    }
    let mut said: BTreeSet<(String, String)> = BTreeSet::new();
    for run in runs {
        let (id, key, has): (String, Option<String>, i64) = (run.get(0), run.get(1), run.get(2));
        sample.owners.extend(run.get::<_, Option<String>>(3));
        // A run whose steps pass the pool has a gate only for one of them.
        let Some(key) = key else { continue };
        if has > 0 {
            said.insert((key, id));
        } else {
            sample.wrong.push(format!("run {id} has an owner, but no hold"));
        }
    }
    let gone = held.difference(&said);
    sample.wrong.extend(gone.map(|(key, run)| {
        format!("gate {key} lists the holder {run}, but that run has no such hold")
    }));
    let unheld = said.difference(&held);
    sample.wrong.extend(
        unheld.map(|(key, run)| {
            format!("run {run} has a hold of gate {key}, which does not list it")
        }),
    );
    sample
}

/// Counts the runs that have not ended.
pub async fn unended(client: &Client, schema: &str) -> Result<i64, Error> {
    let sql = format!("select count(*) from {schema}.run");
    Ok(client.query_one(&sql, &[]).await?.get(0))
}

/// Returns the number of deadlocks that the server has counted in this database.
pub async fn deadlocks(client: &Client) -> i64 {
    let sql = "select deadlocks from pg_stat_database where datname = current_database()";
    client.query_one(sql, &[]).await.expect("the server has statistics").get(0)
}

/// All rows that are left after all runs have ended.
#[derive(Debug)]
pub struct Left {
    /// The limit that the runs competed for.
    contest: Contest,
    /// For each event, its `dedupeId` and its key.
    events: BTreeMap<i64, (String, String)>,
    /// For each event, its runs with their final status.
    ended: BTreeMap<i64, Vec<(RunId, String)>>,
    /// For each run, its recorded steps with their fences.
    steps: BTreeMap<i64, BTreeMap<String, i64>>,
    /// Rows that must not exist.
    wrong: Vec<String>,
}

impl Left {
    /// Reads all rows.
    pub async fn read(client: &Client, schema: &str, contest: Contest) -> Result<Self, Error> {
        client.execute("select set_config('search_path', $1, false)", &[&schema]).await?;
        let mut left = Self {
            contest,
            events: BTreeMap::new(),
            ended: BTreeMap::new(),
            steps: BTreeMap::new(),
            wrong: Vec::new(),
        };
        let events = "select seq, data::jsonb ->> 'n', data::jsonb ->> 'k' from event";
        for row in client.query(events, &[]).await? {
            left.events.insert(row.get(0), (row.get(1), row.get(2)));
        }
        for row in client.query("select event_seq, seq, salt, state from ended", &[]).await? {
            let run = RunId { seq: Seq(row.get(1)), salt: row.get::<_, i64>(2).cast_unsigned() };
            left.ended.entry(row.get(0)).or_default().push((run, row.get(3)));
        }
        for row in client.query("select run, id, fence from step", &[]).await? {
            left.steps.entry(row.get(0)).or_default().insert(row.get(1), row.get(2));
        }
        let busy = "select encode(key, 'hex') || ' is left as ' || state
                      from gate
                     where state like '{\"slots\"%'
                       and (state::jsonb -> 'slots' -> 'holders' <> '[]'
                            or state::jsonb -> 'slots' -> 'head' is not null)
                     union all
                    select 'run ' || seq || ' is left as ' || body
                      from run";
        left.wrong = client.query(busy, &[]).await?.iter().map(|row| row.get(0)).collect();
        Ok(left)
    }

    /// Counts the ended runs, by status.
    pub fn states(&self) -> BTreeMap<&str, usize> {
        let mut states = BTreeMap::new();
        for (_, state) in self.ended.values().flatten() {
            *states.entry(state.as_str()).or_default() += 1;
        }
        states
    }

    /// Returns all violations, found with the journals of the processes.
    pub fn judge(&self, stories: &[Story], drives: &[Drive]) -> Vec<String> {
        let mut wrong = self.wrong.clone();
        wrong.extend(self.judge_events(stories));
        wrong.extend(self.judge_runs(stories));
        wrong.extend(self.judge_keys(drives));
        wrong.extend(self.judge_endings(stories));
        wrong
    }

    /// Checks that a confirmed end is final (spec I6).
    fn judge_endings(&self, stories: &[Story]) -> Vec<String> {
        let all = self.ended.values().flatten();
        let ended: BTreeMap<String, &str> =
            all.map(|(run, state)| (run.to_string(), state.as_str())).collect();
        let differ = drives::endings(stories)
            .into_iter()
            .filter(|(run, state)| ended.get(*run) != Some(state));
        let told = |(run, state): (&str, &str)| {
            format!("run {run} was confirmed as {state}, but its row says {:?}", ended.get(run))
        };
        differ.map(told).collect()
    }

    /// Checks that every answered event exists once and has one run. An event without an answer may
    /// be missing.
    fn judge_events(&self, stories: &[Story]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (seq, (id, key)) in &self.events {
            found.entry(id).or_default().push(key);
            let runs = self.ended.get(seq).map_or(0, Vec::len);
            if runs != 1 {
                wrong.push(format!("event {id} has {runs} runs"));
            }
        }
        for (id, (key, answered)) in drives::posts(stories) {
            let there = found.remove(id.as_str()).unwrap_or_default();
            let good = there == [key.as_str()] || (there.is_empty() && !answered);
            if !good {
                wrong.push(format!(
                    "event {id} (answered: {answered}) has wrong rows, with keys {there:?}"
                ));
            }
        }
        wrong.extend(found.into_keys().map(|id| format!("event {id} was never posted")));
        for seq in self.ended.keys().filter(|seq| !self.events.contains_key(seq)) {
            wrong.push(format!("a run was started by event {seq}, which does not exist"));
        }
        wrong
    }

    /// Checks that every run ended as its script says, and that each step was recorded once, with
    /// the fence of the last process that executed it.
    fn judge_runs(&self, stories: &[Story]) -> Vec<String> {
        let mut wrong = Vec::new();
        let effects = drives::effects(stories);
        let none = BTreeMap::new();
        for (run, state) in self.ended.values().flatten() {
            let script = Script::of(*run);
            let steps = self.steps.get(&run.seq.0).unwrap_or(&none);
            let ids: Vec<&str> = steps.keys().map(String::as_str).collect();
            let cancelled =
                state == "cancelled" && ids.iter().all(|id| script.steps().contains(id));
            if !cancelled && (state != script.state() || ids != script.steps()) {
                wrong.push(format!(
                    "run {run} ({script:?}) ended as {state} with the wrong steps {ids:?}"
                ));
            }
            for (id, fence) in steps.iter().filter(|(id, _)| *id != "nap") {
                let last = effects.get(&(run.to_string(), id.clone())).and_then(|it| it.last());
                if last != Some(fence) {
                    wrong.push(format!(
                        "step {id} of {run}: recorded with fence {fence}, executed {last:?}"
                    ));
                }
            }
        }
        wrong
    }

    /// Checks that every run held the gate with the key and the units of its event, and every step
    /// that passes the pool that of its own.
    fn judge_keys(&self, drives: &[Drive]) -> Vec<String> {
        let mut expected: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for (event, runs) in &self.ended {
            let Some((id, key)) = self.events.get(event) else { continue };
            let (workflow, units) = self.contest.run_of(id);
            for (run, _) in runs {
                if workflow != STEPS {
                    expected.insert(run.to_string(), (key.clone(), units));
                    continue;
                }
                expected.insert(run.to_string(), (NO_KEY.to_owned(), 0));
                let (key, units) = step_of(*run);
                for step in ["a", "b"] {
                    expected.insert(place_of(*run, step), (key.clone(), units as usize));
                }
            }
        }
        let held = |drive: &Drive| {
            let expected = expected.get(&drive.run);
            expected.is_some_and(|(key, units)| (key, units) == (&drive.key, &drive.units))
        };
        let strayed = drives.iter().filter(|drive| !held(drive));
        let told = |it: &Drive| {
            format!("run {} was driven with {} units of the wrong key {}", it.run, it.units, it.key)
        };
        strayed.map(told).collect()
    }
}

/// Returns the reasons for which workers stopped by themselves.
pub fn stops(stories: &[Story]) -> Vec<String> {
    let notes = stories.iter().flat_map(|story| &story.notes);
    let reason = |note: &Note| match note {
        Note::Stop { reason } => Some(reason.clone()),
        Note::Start { .. }
        | Note::Step { .. }
        | Note::End { .. }
        | Note::Ended { .. }
        | Note::Post { .. }
        | Note::Posted { .. }
        | Note::Beat { .. } => None,
    };
    notes.filter_map(|(_, note)| reason(note)).collect()
}
