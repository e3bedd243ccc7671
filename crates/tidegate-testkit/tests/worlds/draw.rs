//! Generators of random cases: each control is on or off, limits are 1 to 3, times are short.

use proptest::{option::weighted, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{Case, Change, Field, Op};

/// Draws a case: definitions and operations.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    prop_oneof![4 => mixed(), 1 => overlapping()]
}

/// Draws a case with all controls.
fn mixed() -> impl Strategy<Value = Case> {
    let kinds = proptest::collection::vec(prop::bool::weighted(0.8), 14);
    let fair = prop::bool::weighted(0.4);
    let ops = proptest::collection::vec(op(), 5..60);
    (workflow("w0", false), workflow("w1", false), flow(), kinds, ops, fair).prop_map(
        |(first, second, actions, kinds, ops, fair)| {
            let workflows = [first.0, second.0].into_iter().flatten();
            let definitions: Vec<Value> = workflows.chain(actions).collect();
            let later = [first.1, second.1].into_iter().flatten().collect();
            let ops = ops.into_iter().filter(|op| wanted(op, &kinds)).collect();
            // A batch has events of one value only.
            let collects =
                |def: &Value| def.get("batch").is_some() || def["debounce"]["keep"] == "all";
            let fair = fair && !definitions.iter().any(collects);
            Case { definitions, later, ops, fair }
        },
    )
}

/// Draws a case with overrides of one key, of two prefixes of it and of all keys of one gate, which
/// the runs take. With all controls they rarely meet at one key.
fn overlapping() -> impl Strategy<Value = Case> {
    // The gate, and the targets of two thirds and of the rest of the overrides: its own limit and
    // the starts of its keys, or those of the pool `px`, which are the first of a case.
    let gate = select(vec![
        (json!({ "concurrency": { "limit": 2, "key": "a" } }), [4, 6]),
        (json!({ "concurrency": { "limit": 2, "key": "a", "span": "run" } }), [4, 6]),
        (json!({ "concurrency": { "pool": "px", "key": "a" } }), [0, 1]),
        (json!({ "throttle": { "limit": 1, "perMs": 12, "burst": 2, "key": "a" } }), [4, 6]),
    ]);
    let value = || select(vec![Field::TextOneTwo, Field::TextOneTwo, Field::TextOne, Field::One]);
    let op = prop_oneof![
        6 => value().prop_map(|a| Op::Post { name: "w0", a, b: Field::One }),
        4 => (1..4_u32).prop_map(Op::Lease),
        2 => (0..8_usize).prop_map(Op::Complete),
        1 => (0..8_usize, 1..30_u64).prop_map(|(pick, ms)| Op::Sleep(pick, ms)),
        2 => (1..20_u64).prop_map(Op::Tick),
        7 => overriding(3),
    ];
    (gate, proptest::collection::vec(op, 10..60)).prop_map(|((mut gate, goals), mut ops)| {
        (gate["name"], gate["triggers"]) = (json!("w0"), json!([{ "event": "w0" }]));
        for op in &mut ops {
            if let Op::Override { goal, .. } = op {
                *goal = goals[goal.saturating_sub(1)];
            }
        }
        Case { definitions: vec![gate], later: Vec::new(), ops, fair: false }
    })
}

/// Returns whether a case has this kind of operation. Every case has posts, leases, completions and
/// ticks.
fn wanted(op: &Op, kinds: &[bool]) -> bool {
    match op {
        Op::Lease(_) | Op::Complete(_) | Op::Tick(_) | Op::Post { .. } => true,
        Op::Call { .. } => kinds[0],
        Op::Late { .. } => kinds[1],
        Op::Fail(_) => kinds[2],
        Op::Sleep(..) => kinds[3],
        Op::Succeed(_) | Op::Overload(..) => kinds[11],
        Op::Cancel(_) => kinds[4],
        Op::Stopped(_) => kinds[5],
        Op::Lose => kinds[6],
        Op::Release => kinds[7],
        Op::Enter { .. } | Op::Leave(_) => kinds[8],
        Op::Defer { .. } => kinds[9],
        Op::Override { .. } => kinds[10],
        Op::Wait { .. } => kinds[12],
        Op::CloseGate { .. } => kinds[13],
    }
}

fn op() -> impl Strategy<Value = Op> {
    let name = || select(vec!["w0", "w0", "w1", "e"]);
    let session = || weighted(0.9, select(vec!["s", "t"]));
    let awaited = || select(vec!["e", "e", "w1"]);
    let gate = || select(vec!["throttle", "concurrency", "pool:px", "pool:pr"]);
    let pick = 0..8_usize;
    prop_oneof![
        8 => (name(), field(), field()).prop_map(|(name, a, b)| Op::Post { name, a, b }),
        4 => (select(vec!["x", "y"]), session(), field())
            .prop_map(|(action, session, a)| Op::Call { action, session, a }),
        1 => (1..40_u64, name(), field()).prop_map(|(ms, name, a)| Op::Late { ms, name, a }),
        2 => (1..60_u64, name(), field()).prop_map(|(ms, name, a)| Op::Defer { ms, name, a }),
        6 => (1..4_u32).prop_map(Op::Lease),
        4 => pick.clone().prop_map(Op::Complete),
        1 => pick.clone().prop_map(Op::Fail),
        2 => (pick.clone(), 1..30_u64).prop_map(|(pick, ms)| Op::Sleep(pick, ms)),
        2 => pick.clone().prop_map(Op::Succeed),
        1 => (pick.clone(), 1..30_u64).prop_map(|(pick, ms)| Op::Overload(pick, ms)),
        2 => pick.clone().prop_map(Op::Cancel),
        4 => (pick.clone(), field(), field(), 1..4_u32, prop::bool::weighted(0.8))
            .prop_map(|(at, key, value, cost, parks)| Op::Enter { at, key, value, cost, parks }),
        3 => (pick.clone(), awaited(), weighted(0.5, field()), weighted(0.3, 1..30_u64))
            .prop_map(|(at, name, a, ms)| Op::Wait { at, name, a, ms }),
        2 => (pick.clone(), gate(), 1..40_u64)
            .prop_map(|(at, gate, ms)| Op::CloseGate { at, gate, ms }),
        3 => overriding(40),
        1 => pick.clone().prop_map(Op::Leave),
        2 => pick.prop_map(Op::Stopped),
        1 => Just(Op::Lose),
        5 => (1..40_u64).prop_map(Op::Tick),
        1 => Just(Op::Release),
    ]
}

/// Draws a change of an override, of one of this many targets.
fn overriding(goals: usize) -> impl Strategy<Value = Op> {
    (0..goals, weighted(0.7, key()), change(), weighted(0.3, 1..60_u64))
        .prop_map(|(goal, key, change, ends)| Op::Override { goal, key, change, ends })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (1..5_u32).prop_map(Change::Limit),
        1 => (1..4_u32).prop_map(Change::Burst),
        3 => prop::bool::weighted(0.8).prop_map(Change::Pause),
        2 => (1..40_u64).prop_map(Change::Close),
        3 => Just(Change::Remove),
    ]
}

fn field() -> impl Strategy<Value = Field> {
    select(vec![
        Field::One,
        Field::One,
        Field::OnePointZero,
        Field::TextOne,
        Field::TextOneTwo,
        Field::True,
        Field::Missing,
    ])
}

/// Draws the key of an override: the texts have two prefixes.
fn key() -> impl Strategy<Value = Field> {
    select(vec![
        Field::One,
        Field::TextOne,
        Field::TextOneTwo,
        Field::True,
        Field::Prefix("1"),
        Field::Prefix("1"),
        Field::Prefix("12"),
    ])
}

/// Sources of keys: none, a path, `+` for the paths `a` and `b`, `=` for an expression.
const KEYS: [Option<&str>; 7] =
    [None, None, Some("a"), Some("a"), Some("b"), Some("+"), Some("=b")];

/// Returns the source of a key, with the paths of a workflow or of an action.
fn source(key: &str, action: bool) -> Value {
    let (path, root) = if action { ("input.", "request.input.") } else { ("", "event.data.") };
    match key.strip_prefix('=') {
        Some(name) => json!({ "expr": format!("{root}{name}") }),
        None if key == "+" => json!({ "paths": [format!("{path}a"), format!("{path}b")] }),
        None => json!(format!("{path}{key}")),
    }
}

/// Draws a workflow in one or two versions. The second version has other numbers.
fn workflow(
    name: &'static str,
    action: bool,
) -> impl Strategy<Value = (Option<Value>, Option<Value>)> {
    let numbers = || proptest::collection::vec(1..4_u64, 13);
    let keys = proptest::collection::vec(select(KEYS.to_vec()), 8);
    let on = proptest::collection::vec(prop::bool::weighted(0.3), 38);
    let two = prop::bool::weighted(0.3);
    (on, keys, numbers(), numbers(), two).prop_map(move |(mut on, keys, first, mut second, two)| {
        // Rates and windows are the same in both versions: the state of a meter can be converted to
        // another rate only with rounding, and the deadline of an open window must stay the one
        // that its last verdict had.
        for kept in [0, 2, 3, 4, 5, 6] {
            second[kept] = first[kept];
        }
        // An open fold is not checked again for a shift that is read from the data.
        if first[8] == 2 || second[8] == 2 {
            second[8] = first[8];
        }
        // With several gates, the second version does not raise limits: the order in which keys
        // notice a raised limit is not specified, and it would be visible at a later gate that the
        // keys share.
        if [1, 11, 12, 20].into_iter().filter(|&stop| on[stop]).count() > 1 {
            for limit in [10, 11] {
                second[limit] = second[limit].min(first[limit]);
            }
        }
        // Versions that coexist have separate gates. A change between `coexist` and another policy
        // is not tested here.
        if first[9] == 2 || second[9] == 2 {
            second[9] = first[9];
        }
        // Not with a singleton: a run that a newer version takes over stays in the singleton gate
        // of its old version.
        on[3] &= !(on[13] && (first[9] == 3 || second[9] == 3));
        let build = |version, numbers: &[u64]| define(name, version, action, &on, &keys, numbers);
        (Some(build(1, &first)), two.then(|| build(2, &second)))
    })
}

fn flow() -> impl Strategy<Value = Vec<Value>> {
    let policy = || {
        select(vec![
            json!("allow"),
            json!("queue"),
            json!({"policy": "queue", "maxWaitMs": 35}),
            json!("reject"),
            json!("restart"),
            json!("latest"),
            json!({"policy": "debounce", "periodMs": 15}),
            json!({"policy": "debounce", "periodMs": 15, "maxWaitMs": 25}),
            json!({"policy": "queue", "key": "input.a"}),
            json!({"policy": "queue", "key": {"paths": ["session", "input.a"]}}),
            json!({"policy": "reject", "key": "none"}),
            json!({"policy": "queue", "queue": {"maxWaiting": 1}}),
            json!({"policy": "queue", "queue": {"maxWaiting": 1, "onOverflow": "dropOldest"}}),
            json!({"policy": "queue", "queue": {"maxWaiting": 2, "onOverflow": "dropNewest"}}),
        ])
    };
    let action = |name: &'static str| {
        (workflow(name, true), policy()).prop_map(|((action, _), policy)| {
            let mut action = action.expect("always one");
            let limits = action.get("concurrency").cloned();
            let both = match limits {
                Some(Value::Array(mut list)) => {
                    list.insert(0, policy.clone());
                    Value::Array(list)
                }
                _ => policy.clone(),
            };
            action["concurrency"] = both;
            // The gate of the policy has another key than the window, or the policy cancels runs.
            let harmless = policy == json!("allow") || policy.get("key") == Some(&json!("none"));
            if action["debounce"]["keep"] == "all" && !harmless {
                let window = action["debounce"].as_object_mut().expect("an object");
                window.insert("keep".to_owned(), json!("first"));
                window.remove("maxSize");
            }
            if policy.get("policy") == Some(&json!("debounce")) {
                // A newer request with other keys may have another number of gates of a pool.
                let mut pools = 0;
                if let Some(limits) = action["concurrency"].as_array_mut() {
                    limits.retain(|it| {
                        pools += usize::from(it.get("pool").is_some());
                        it.get("pool").is_none() || pools == 1
                    });
                }
                action.as_object_mut().expect("an object").remove("debounce");
            }
            action
        })
    };
    (action("x"), action("y")).prop_map(|(x, y)| vec![x, y])
}

/// Builds a definition: `on` selects its controls, `keys` and `numbers` are their settings.
#[expect(clippy::too_many_lines, reason = "one entry per field of a definition")]
fn define(
    name: &str,
    version: u32,
    action: bool,
    on: &[bool],
    keys: &[Option<&'static str>],
    numbers: &[u64],
) -> Value {
    let batch = on[0] && !action;
    // A window that keeps all events, which needs what a batch needs.
    let gather = on[7] && on[28] && !batch;
    // With a batch, gates and throttle must have the same key as the batch.
    let key = |n: usize| {
        let key = match (batch, gather) {
            (true, _) if n < 5 => keys[0],
            (_, true) if n < 5 => keys[6],
            _ => keys[n],
        };
        key.map(|key| source(key, action))
    };
    // Different periods for the two workflows, so that no two folds that one event opens are due at
    // the same time.
    let apart = u64::from(name.ends_with('1') || name.ends_with('y'));
    let mut def = Map::new();
    let mut set = |field: &str, on: bool, key: Option<Value>, mut value: Value| {
        if let Some(key) = key {
            value["key"] = key;
        }
        if on {
            def.insert(field.to_owned(), value);
        }
    };
    let burst = |on: bool, value: Value| {
        let mut value = value;
        if on {
            value["burst"] = json!(numbers[0]);
        }
        value
    };
    set("name", true, None, json!(name));
    set("version", true, None, json!(version));
    if action {
        set("flow", true, None, json!("f"));
    } else {
        let shared = json!({"event": "e"});
        let shared = if on[24] { under(shared, "event.data.a == 1") } else { shared };
        set("triggers", true, None, json!([{"event": name}, shared]));
    }
    let buffer = json!({"maxSize": numbers[1], "timeoutMs": 17 + apart});
    let buffer = if on[25] { under(buffer, "event.data.b != null") } else { buffer };
    set("batch", batch, key(0), buffer);
    // The time per turn is a whole number of microseconds, the resolution of the store's clock.
    // Otherwise the rounding of the core and of the reference would differ.
    let rate = json!({"limit": numbers[2], "perMs": 12 * numbers[3]});
    let cost = if action { "input.c" } else { "c" };
    let costing = |on: bool, limit: Value| {
        let units = if numbers[0] == 1 { json!(2) } else { json!(cost) };
        if on { with_cost(limit, units) } else { limit }
    };
    // A run of a batch has the key of all its events.
    let by = if batch || gather { key(3) } else { key(7).or(Some(source("a", action))) };
    let lacks = on[35] && (version == 2) == on[2];
    let fair = |on: bool, mut limit: Value| {
        if let Some(by) = by.clone().filter(|_| on && !lacks) {
            let weights = json!({ "1": numbers[12], "true": numbers[6] });
            limit["fair"] = json!({ "by": by, "weights": weights, "defaultWeight": numbers[9] });
        }
        limit
    };
    let narrow = fair(on[34], costing(on[17], burst(on[2], rate)));
    let wide = json!({"limit": numbers[2], "perMs": 36 * numbers[3], "burst": 2});
    let wide = (on[16] && on[1]).then(|| costing(on[18], wide));
    set("throttle", on[1], None, throttles(narrow, key(1), wide));
    // Not with a handoff: versions that coexist have separate queues, which the reference does not
    // have.
    let latest = on[15] && !on[13];
    set("singleton", on[3], key(2), json!({"mode": mode(batch || gather || on[4], latest)}));
    let rate = json!({"limit": numbers[4], "perMs": 20 * numbers[5]});
    let most = if on[6] { numbers[0] } else { numbers[4] };
    set("rateLimit", on[5], key(5), costing(on[18] && most > 1, burst(on[6], rate)));
    let mut window = json!({"periodMs": 13 + apart});
    if on[8] {
        window["maxWaitMs"] = json!(13 + apart + 7 * numbers[6]);
    }
    match (on[29], on[30], gather) {
        (true, true, _) | (true, false, true) => window["edge"] = json!("both"),
        (true, false, false) => window["edge"] = json!("leading"),
        (false, ..) => {}
    }
    if gather {
        window["keep"] = json!("all");
        if on[4] {
            window["maxSize"] = json!(numbers[1]);
        }
    } else if on[28] && window["edge"] != "leading" {
        window["keep"] = json!("first");
    }
    set("debounce", on[7], key(6), window);
    set("idempotency", on[9], key(7), json!({"periodMs": 30 * numbers[7]}));
    // A head start, a handicap, or either by the event.
    let shift = match numbers[8] {
        1 => json!(-10),
        2 => json!({"from": cost, "default": 1, "min": -20, "max": 2}),
        more => json!(10 * more),
    };
    set("priority", on[10], None, json!({"shiftMs": shift}));
    let mut limits = limits(on, [key(3), key(4)], numbers, cost);
    // Only with one gate: at several, the order in which keys notice a raised limit is not
    // specified. Not with costs in a fold, whose sums are compared with the limit of its last event.
    let gates = [1, 11, 12, 20].into_iter().filter(|&stop| on[stop]).count();
    if on[32] && gates == 1 && !(on[19] && (batch || on[7])) {
        for limit in limits.as_array_mut().expect("a list") {
            let most = limit["limit"].as_u64().expect("a number").max(2);
            limit["limit"] = json!({"from": cost, "default": 1, "min": 1, "max": most});
        }
    }
    if on[36] {
        // The limit is a number in both versions, or the value of the gate would stay without use.
        let fixed = |limit: &&mut Value| limit["limit"].is_u64();
        for limit in limits.as_array_mut().expect("a list").iter_mut().filter(fixed) {
            let most = limit["limit"].as_u64().expect("a number") + 1;
            limit["adaptive"] = json!({"min": 1, "max": most, "cooldownMs": 9 * numbers[12]});
        }
    }
    if let Some(first) = limits.as_array_mut().expect("a list").first_mut() {
        let drops = first["queue"].get("onOverflow").is_some();
        *first = fair(on[33] && !drops, first.clone());
    }
    let uses = pool_uses(on, [key(3), key(4)], cost);
    limits.as_array_mut().expect("a list").extend(uses);
    let limited = limits != json!([]);
    set("concurrency", limited, None, limits);
    let policy = match numbers[9] {
        1 => "drain",
        2 => "coexist",
        _ => "supersede",
    };
    let handoff = match key(2) {
        Some(key) => json!({"type": "keyed", "keyField": key, "onNewVersion": policy}),
        None => json!({"type": "singleton", "onNewVersion": policy}),
    };
    set("handoff", on[13], None, handoff);
    set("startWithinMs", on[14], None, json!(19 * numbers[12]));
    let own = if batch || gather { key(0) } else { key(1).or(key(7)) };
    if let Some(own) = own.as_ref().and_then(Value::as_str) {
        let theirs = own.trim_start_matches("input.");
        let mut entry = json!({"event": "e", "match": {theirs: own}});
        if !on[37] {
            // An event that cancels the run is seen by none of its waits.
            let event = if on[31] { "w1" } else { "e" };
            let entry = json!({"event": event, "match": {theirs: own}});
            def.insert("waitsFor".to_owned(), json!([entry]));
        }
        if on[8] {
            entry["withinMs"] = json!(40);
        }
        // Not where the end of a run flushes a fold of its workflow: the core does that right after
        // the event that cancels the run, the reference before the event joins the fold.
        let held = (batch || on[7]) && on[3];
        if on[31] && !held {
            def.insert("cancelOn".to_owned(), entry);
        }
    }
    Value::Object(def)
}

/// Builds a list of up to two concurrency limits that never apply to exactly the same runs.
fn limits(on: &[bool], keys: [Option<Value>; 2], numbers: &[u64], cost: &str) -> Value {
    let [first, second] = keys;
    let span = |run: bool| if run { "run" } else { "executing" };
    let same = first == second && on[11];
    let mut list = Vec::new();
    for (wanted, key, span, limit) in [
        (on[11], first, span(on[2]), numbers[10]),
        (on[12], second, span(if same { !on[2] } else { on[6] }), numbers[11]),
    ] {
        let mut limit = json!({"limit": limit, "span": span});
        if on[19] {
            limit["cost"] = json!(cost);
        }
        if on[26] {
            // A run of many events is not displaced: all of them would be lost.
            let many = on[0] || (on[7] && on[28]);
            limit["queue"] = queue(span == "run" && !many && on[27], numbers[0]);
        }
        if let Some(key) = key {
            limit["key"] = key;
        }
        if wanted {
            list.push(limit);
        }
    }
    Value::Array(list)
}

/// Builds up to two uses of pools, which may be of one gate.
fn pool_uses(on: &[bool], keys: [Option<Value>; 2], cost: &str) -> Vec<Value> {
    let pool = if on[22] { "pr" } else { "px" };
    let other = if on[23] { "pr" } else { pool };
    let [first, second] = keys;
    let uses = [(on[20], pool, first, on[17]), (on[20] && on[21], other, second, on[19])];
    let uses = uses.into_iter().filter(|(wanted, ..)| *wanted);
    let build = |(_, pool, key, costs): (bool, &str, Option<Value>, bool)| {
        let mut usage = json!({ "pool": pool });
        if let Some(key) = key {
            usage["key"] = key;
        }
        if costs { with_cost(usage, json!(cost)) } else { usage }
    };
    uses.map(build).collect()
}

/// Builds the bound of a queue.
fn queue(drops: bool, number: u64) -> Value {
    match (drops, number) {
        (false, number) => json!({"maxWaiting": number - 1}),
        (true, 1) => json!({"maxWaiting": 1, "onOverflow": "dropNewest"}),
        (true, number) => json!({"maxWaiting": number - 1, "onOverflow": "dropOldest"}),
    }
}

/// Builds one throttle or two: of one key or of two, the second over a longer period.
fn throttles(mut narrow: Value, key: Option<Value>, wide: Option<Value>) -> Value {
    if let Some(key) = key {
        narrow["key"] = key;
    }
    match wide {
        Some(wide) => json!([narrow, wide]),
        None => narrow,
    }
}

fn with_cost(mut limit: Value, cost: Value) -> Value {
    limit["cost"] = cost;
    limit
}

fn under(mut value: Value, condition: &str) -> Value {
    value["if"] = json!(condition);
    value
}

fn mode(skip: bool, latest: bool) -> &'static str {
    match (skip, latest) {
        (true, _) => "skip",
        (false, true) => "latest",
        (false, false) => "cancel",
    }
}
