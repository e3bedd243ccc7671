//! Executes a story on the real engine, and records the state of the runs at every tick.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, Flow, GateToClose, Limited, OverrideFields, OverrideTarget, Pool, Request,
    Result, RunId, StepError, Timer, Workflow, new_request, testing::TestHarness,
};
use tidegate_core::{
    flow::Verdict,
    id::EventId,
    json::Payload,
    row::{Ending, GateState, Phase, Row},
    time::Timestamp,
};

/// Content of one picture: one or more panels with the same time axis.
pub(crate) struct Story {
    pub(crate) title: &'static str,
    /// Duration, tick, and distance of the axis marks, all in milliseconds.
    pub(crate) until: u64,
    pub(crate) tick: u64,
    pub(crate) mark: u64,
    pub(crate) panels: Vec<Panel>,
}

/// One definition, and the events that are sent to it.
pub(crate) struct Panel {
    /// The caption above the panel. Its TOML is the definition that the engine gets.
    pub(crate) caption: String,
    pub(crate) setting: Setting,
    pub(crate) sent: Vec<Sent>,
    /// Events and times at which `why` is called for the run of the event.
    pub(crate) asked: Vec<(char, u64)>,
    /// Pools, as TOML.
    pools: Vec<String>,
    /// Overrides of `work`, each with its time.
    overrides: Vec<(u64, Over)>,
}

/// Change of an override of `work`: its `concurrency` limit, or a pause of its first starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Limit(u32),
    Undone,
    Paused,
    Resumed,
}

impl Panel {
    pub(crate) fn new(caption: &str, setting: Setting, sent: Vec<Sent>) -> Self {
        let (asked, pools, overrides) = (Vec::new(), Vec::new(), Vec::new());
        Self { caption: caption.to_owned(), setting, sent, asked, pools, overrides }
    }

    pub(crate) fn pool(mut self, definition: &str) -> Self {
        self.pools.push(definition.to_owned());
        self
    }

    pub(crate) fn overridden(mut self, at: u64, limit: u32) -> Self {
        self.overrides.push((at, Over::Limit(limit)));
        self
    }

    pub(crate) fn paused(mut self, at: u64) -> Self {
        self.overrides.push((at, Over::Paused));
        self
    }

    /// Undoes the last override.
    pub(crate) fn undone(mut self, at: u64) -> Self {
        let last = self.overrides.last().map_or(Over::Paused, |(_, over)| *over);
        self.overrides.push((at, if last == Over::Paused { Over::Resumed } else { Over::Undone }));
        self
    }

    pub(crate) fn asked(mut self, letter: char, at: u64) -> Self {
        self.asked.push((letter, at));
        self
    }
}

pub(crate) enum Setting {
    /// Workflows, as TOML, and the number of workers.
    Workflows(Vec<String>, usize),
    /// A flow, as TOML, and its actions, which are called in one session.
    Flow(String, &'static [&'static str]),
    /// Versions 1 and 2 of a workflow, the number of workers, and the time at which version 2 is
    /// released.
    Versions([String; 2], usize, u64),
}

impl Setting {
    /// Creates a setting with two versions that have the same controls.
    pub(crate) fn versions(definition: String, at: u64) -> Self {
        Self::Versions([definition.clone(), definition], 100, at)
    }
}

/// One event: the time at which it is sent, and how long its run works.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) letter: char,
    at: u64,
    to: &'static str,
    /// Name and value of the event's key.
    key: (&'static str, &'static str),
    /// Value of a second key.
    id: &'static str,
    works: u64,
    /// Time until it is delivered.
    delay: u64,
    /// Duration of a sleep after the work, and of further work after the sleep.
    naps: Option<(u64, u64)>,
    /// Whether the service refuses the first attempt. The second one is made this long after.
    refused: Option<u64>,
    /// Whether the refusal closes the `concurrency` limit for that time.
    closes: bool,
}

/// Creates an event that is sent at `at` and whose run works for `works`.
pub(crate) fn event(letter: char, at: u64, works: u64) -> Sent {
    Sent {
        letter,
        at,
        to: "work",
        key: ("", ""),
        id: "",
        works,
        delay: 0,
        naps: None,
        refused: None,
        closes: false,
    }
}

impl Sent {
    pub(crate) fn key(self, name: &'static str, value: &'static str) -> Self {
        Self { key: (name, value), ..self }
    }

    pub(crate) fn delay(self, delay: u64) -> Self {
        Self { delay, ..self }
    }

    pub(crate) fn id(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    pub(crate) fn to(self, to: &'static str) -> Self {
        Self { to, ..self }
    }

    pub(crate) fn naps(self, naps: u64, works: u64) -> Self {
        Self { naps: Some((naps, works)), ..self }
    }

    pub(crate) fn refused(self, again: u64) -> Self {
        Self { refused: Some(again), ..self }
    }

    pub(crate) fn closes(self, again: u64) -> Self {
        Self { closes: true, ..self.refused(again) }
    }

    fn data(&self) -> Value {
        let naps = self.naps.map(|(naps, again)| json!([naps, again]));
        let (key, value) = self.key;
        // A number is sent as one: a cost, or a limit.
        let value = value.parse::<u64>().map_or_else(|_| json!(value), Value::from);
        let (letter, works, refused) = (self.letter, self.works, self.refused);
        json!({
            "letter": letter, "works": works, "naps": naps, "id": self.id, "refused": refused,
            "closes": self.closes, key: value,
        })
    }

    fn label(&self) -> &'static str {
        if self.to == "work" { self.key.1 } else { self.to }
    }
}

/// State of a run in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    /// The run does not exist yet: its window or buffer is open.
    Collects,
    Waits,
    Runs,
    Sleeps,
}

/// Recorded result of a panel.
pub(crate) struct Played {
    pub(crate) caption: String,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) runs: BTreeMap<RunId, Course>,
    /// For each claim: the event that took it, and the start and end of the period for which its
    /// key was remembered, in milliseconds.
    pub(crate) claims: Vec<(char, u64, u64)>,
    pub(crate) released: Option<u64>,
    /// Releases and overrides, with the time and the words beside it.
    pub(crate) marks: Vec<(u64, String)>,
    /// Answers of `why`, with every run id replaced by `run_…`.
    pub(crate) whys: Vec<String>,
}

pub(crate) struct Arrival {
    pub(crate) letter: char,
    pub(crate) at: u64,
    pub(crate) label: &'static str,
    pub(crate) told: String,
    pub(crate) outcome: &'static str,
    pub(crate) run: Option<RunId>,
}

/// Recorded states of a run over time.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) parts: Vec<(Doing, u64, u64)>,
    /// Letters of the events that the handler received as input.
    pub(crate) carries: String,
    pub(crate) version: u32,
    /// Time at which the run was cancelled, the run that replaced it, if any, and the reason.
    pub(crate) cancelled: Option<(u64, Option<RunId>, String)>,
}

type Inputs = Arc<Mutex<BTreeMap<RunId, String>>>;

/// Executes one panel from its first event to the end of the story.
pub(crate) async fn play(story: &Story, panel: &Panel) -> Played {
    let harness = TestHarness::new();
    let inputs = Inputs::default();
    let engine = engine(&harness, &inputs, panel).await;
    let began = harness.now();
    let mut played = Played {
        caption: panel.caption.clone(),
        arrivals: Vec::new(),
        runs: BTreeMap::new(),
        claims: Vec::new(),
        released: None,
        marks: Vec::new(),
        whys: Vec::new(),
    };
    let mut events = BTreeMap::new();
    for now in (0..=story.until).step_by(usize::try_from(story.tick).unwrap()) {
        if let Setting::Versions(_, _, at) = panel.setting
            && at == now
        {
            engine.release("default", "work", 2).await.unwrap();
            played.released = Some(at);
            played.marks.push((at, "v2 released".to_owned()));
        }
        for (at, over) in panel.overrides.iter().filter(|(at, _)| *at == now) {
            played.marks.push((*at, change(&engine, *over).await));
        }
        for sent in panel.sent.iter().filter(|sent| sent.at == now) {
            let (id, verdict) = send(&engine, &panel.setting, sent).await;
            events.extend(id.map(|id| (id, sent.letter)));
            let (told, outcome, run) = match &verdict {
                Some(it) => {
                    let told = told(it, &events, &played.arrivals, began);
                    (told, it.outcome(), it.run())
                }
                None => (RECORDED.to_owned(), RECORDED, None),
            };
            let Sent { letter, at, .. } = *sent;
            played.arrivals.push(Arrival { letter, at, label: sent.label(), told, outcome, run });
        }
        harness.settle().await;
        look(&harness, &mut played, &events, (now, story.tick), began).await;
        for (letter, _) in panel.asked.iter().filter(|(_, at)| *at == now) {
            let arrival = played.arrivals.iter().find(|arrival| arrival.letter == *letter);
            let run = arrival.and_then(|arrival| arrival.run).expect("the event started a run");
            played.whys.push(without_ids(&engine.why(run).await.unwrap().sentence));
        }
        harness.advance(Duration::from_millis(story.tick)).await;
    }
    for (run, input) in &*inputs.lock().unwrap() {
        played.runs.entry(*run).or_default().carries.clone_from(input);
    }
    played
}

/// Verdict on an event that starts no workflow.
pub(crate) const RECORDED: &str = "recorded";

/// Changes an override of `work`. Returns the words of the picture.
async fn change(engine: &Engine, over: Over) -> String {
    let of_limit = matches!(over, Over::Limit(_) | Over::Undone);
    let target = OverrideTarget {
        app: "default".to_owned(),
        workflow: "work".to_owned(),
        control: of_limit.then_some(Limited::Concurrency),
        ..OverrideTarget::default()
    };
    let fields = match over {
        Over::Limit(limit) => OverrideFields { limit: Some(limit), ..OverrideFields::default() },
        Over::Paused => OverrideFields { paused: Some(true), ..OverrideFields::default() },
        Over::Undone | Over::Resumed => {
            engine.undo_override(target).await.unwrap();
            return "undo".to_owned();
        }
    };
    engine.set_override(target, fields, Some("the database is slow"), None).await.unwrap();
    if let Over::Limit(limit) = over { format!("limit {limit}") } else { "paused".to_owned() }
}

async fn engine(harness: &TestHarness, inputs: &Inputs, panel: &Panel) -> Engine {
    let handler = || {
        let (timer, inputs) = (harness.timer(), inputs.clone());
        move |ctx: Ctx, input: Value| worked(ctx, timer.clone(), inputs.clone(), input)
    };
    match &panel.setting {
        Setting::Workflows(definitions, workers) => {
            let mut builder = harness.engine().workers(*workers);
            for pool in &panel.pools {
                builder = builder.pool(Pool::from_definition(toml::from_str(pool).unwrap()));
            }
            for definition in definitions {
                builder = builder.workflow(Workflow::from_toml(definition, handler()));
            }
            builder.start().await.unwrap()
        }
        Setting::Flow(lines, actions) => {
            let flow = Flow::from_toml(&format!("name = \"work\"\n{lines}"));
            let flow = actions
                .iter()
                .fold(flow, |flow, action| flow.action(Action::new(action, handler())));
            harness.engine().flow(flow).start().await.unwrap()
        }
        Setting::Versions([first, second], workers, _) => {
            let version = |text: &str, n| Workflow::from_toml(text, handler()).version(n);
            let engine = harness.engine().workers(*workers);
            let engine = engine.workflow(version(first, 1)).workflow(version(second, 2));
            let engine = engine.start().await.unwrap();
            engine.release("default", "work", 1).await.unwrap();
            engine
        }
    }
}

/// Handler: works, sleeps and works again, as the input says. A batch does what its first event
/// says.
async fn worked(ctx: Ctx, timer: Arc<dyn Timer>, inputs: Inputs, input: Value) -> Result<()> {
    let all = if let Value::Array(all) = input { all } else { vec![input] };
    let letters = all.iter().filter_map(|it| it["letter"].as_str()).collect::<Vec<_>>().join(" ");
    // Not the number of the attempt: a refusal that closes a gate does not count as one.
    let is_first = inputs.lock().unwrap().insert(ctx.run_id(), letters).is_none();
    let works = async |step: &str, time: Option<u64>| {
        let until = timer.elapsed() + Duration::from_millis(time.unwrap_or_default());
        let sleep = timer.sleep_until(until);
        let work = ctx.step(step, || async {
            sleep.await;
            match all[0]["refused"].as_u64().filter(|_| is_first) {
                Some(ms) => {
                    let again = Duration::from_millis(ms);
                    if all[0]["closes"] == true {
                        return Err(ctx.close_gate(GateToClose::Concurrency, again));
                    }
                    let busy = StepError::coded("Busy", "too many calls").overload();
                    Err(busy.retry_after(again))
                }
                None => Ok(()),
            }
        });
        work.await
    };
    works("work", all[0]["works"].as_u64()).await?;
    if let Some(nap) = all[0]["naps"][0].as_u64() {
        ctx.sleep("nap", Duration::from_millis(nap)).await?;
        works("again", all[0]["naps"][1].as_u64()).await?;
    }
    Ok(())
}

async fn send(
    engine: &Engine,
    setting: &Setting,
    sent: &Sent,
) -> (Option<EventId>, Option<Verdict>) {
    if let Setting::Flow(_, actions) = setting {
        let action = if sent.to == "work" { actions[0] } else { sent.to };
        let request = new_request("work", action, sent.data()).unwrap();
        let metadata = json!({ "webhook": { "deliveryId": sent.id } });
        let metadata = Payload::from_value(&metadata);
        let request = Request { session: Some("s".to_owned()), metadata, ..request };
        let request = request.delay(Duration::from_millis(sent.delay));
        return (None, Some(engine.dispatch(request).await.unwrap().verdict));
    }
    let posted = engine.send(sent.to, sent.data()).await.unwrap();
    (Some(posted.id), posted.runs.into_iter().next().map(|run| run.verdict))
}

/// Formats a verdict. Ids are replaced by letters, and times are in seconds.
fn told(
    verdict: &Verdict,
    events: &BTreeMap<EventId, char>,
    earlier: &[Arrival],
    began: Timestamp,
) -> String {
    let outcome = verdict.outcome();
    let of_run = |run: RunId| {
        let arrival = earlier.iter().rev().find(|arrival| arrival.run == Some(run));
        arrival.map_or('?', |arrival| arrival.letter)
    };
    let at = |time: Timestamp| seconds(millis(time, began));
    match verdict {
        Verdict::Dropped { retry_at, .. } => format!("{outcome}, retry at {}", at(*retry_at)),
        Verdict::QueueFull { waiting, .. } => format!("{outcome}, {waiting} wait"),
        Verdict::Skipped { holder, .. } => format!("{outcome}, {} is live", of_run(*holder)),
        Verdict::Replaced { replaced, .. } => format!("{outcome} {}", of_run(*replaced)),
        Verdict::Deduped { first, .. } => {
            format!("{outcome}, {} was first", events.get(first).unwrap_or(&'?'))
        }
        Verdict::Deferred { deliver_at, .. } => format!("{outcome} until {}", at(*deliver_at)),
        _ => outcome.to_owned(),
    }
}

/// Records the state of every run for the time from now until the next tick.
async fn look(
    harness: &TestHarness,
    played: &mut Played,
    events: &BTreeMap<EventId, char>,
    (now, tick): (u64, u64),
    began: Timestamp,
) {
    for row in harness.store().dump().await.unwrap() {
        match row {
            Row::Run(run) => {
                let course = played.runs.entry(run.id).or_default();
                course.version = run.version;
                match run.phase {
                    Phase::Queued { .. } | Phase::Ready => course.goes_on(Doing::Waits, now, tick),
                    Phase::Driven => course.goes_on(Doing::Runs, now, tick),
                    Phase::Waiting => course.goes_on(Doing::Sleeps, now, tick),
                    Phase::Paused | Phase::Stopping => {}
                }
            }
            Row::Ended(ended) => {
                let course = played.runs.entry(ended.id).or_default();
                course.version = ended.version;
                if let Ending::Cancelled { by, reason } = ended.ending {
                    let reason = without_ids(&reason);
                    course.cancelled.get_or_insert((now, by, reason));
                }
            }
            Row::Gate(gate) => match gate.state {
                GateState::Fold(fold) if !fold.fired => {
                    let full = fold.full.iter().map(|part| part.run);
                    for run in full.chain([fold.run]) {
                        let course = played.runs.entry(run).or_default();
                        course.goes_on(Doing::Collects, now, tick);
                    }
                }
                GateState::Claim(claim) => {
                    let until = millis(claim.until, began);
                    let letter = *events.get(&claim.event).unwrap_or(&'?');
                    if !played.claims.iter().any(|(known, ..)| *known == letter) {
                        played.claims.push((letter, now, until));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Course {
    fn goes_on(&mut self, doing: Doing, now: u64, tick: u64) {
        match self.parts.last_mut() {
            Some((last, _, to)) if *last == doing && *to == now => *to += tick,
            _ => self.parts.push((doing, now, now + tick)),
        }
    }
}

fn without_ids(sentence: &str) -> String {
    let mut text = sentence.to_owned();
    for kind in ["run_", "evt_"] {
        let mut parts = text.split(kind);
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            shown.push_str(kind);
            shown.push('…');
            shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
        }
        text = shown;
    }
    text
}

fn millis(at: Timestamp, began: Timestamp) -> u64 {
    u64::try_from((at.micros() - began.micros()) / 1000).unwrap()
}

/// Formats milliseconds as seconds.
pub(crate) fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}
