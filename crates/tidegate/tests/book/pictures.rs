//! The pictures of the book. An outdated picture fails its test, and `UPDATE_EXPECT=1` redraws it.

use expect_test::expect_file;

use crate::{
    draw,
    play::{Panel, Sent, Setting, Story, event, play},
};

/// Maximum size of a picture. A larger one would have too many details to read.
const MAX_BYTES: usize = 12_000;

macro_rules! pictures {
    ($folder:literal: $($story:ident = $page:literal,)*) => {
        $(#[tokio::test]
        async fn $story() {
            let (svg, whys) = drawn(super::$story()).await;
            let file = concat!("../../../../docs/", $folder, "/pictures/", $page, ".svg");
            expect_file![file].assert_eq(&svg);
            let page = include_str!(concat!("../../../../docs/", $folder, "/", $page, ".md"));
            assert!(page.contains(concat!("](pictures/", $page, ".svg)")), "page lacks {file}");
            for why in whys {
                assert!(page.contains(&why), "docs/{}/{}.md lacks `why`: {why}", $folder, $page);
            }
        })*
    };
}

mod tests {
    use super::{drawn, expect_file};

    pictures! { "controls":
        concurrency = "concurrency",
        throttle = "throttle",
        rate_limit = "rate-limit",
        debounce = "debounce",
        batch = "batch",
        priority = "priority",
        singleton = "singleton",
        idempotency = "idempotency",
        handoff = "handoff",
        start_within = "start-within-ms",
        policies = "policies",
        queues = "queues",
        fair = "fair",
        adaptive = "adaptive",
        costs = "costs",
        limits_from_data = "limits-from-data",
        pools = "pools",
        closing = "closing",
        cancel_on = "cancel-on",
    }

    pictures! { "operate":
        overrides = "overrides",
    }

    pictures! { "concepts":
        deferred = "deferred",
    }

    pictures! { "patterns":
        append_and_respond = "append-and-respond",
        webhook_twice = "webhook-that-fires-twice",
        interrupting_user = "user-who-interrupts",
    }
}

/// Returns the picture of a story, and the answers of `why` that were requested in it.
async fn drawn(story: Story) -> (String, Vec<String>) {
    let mut panels = Vec::new();
    for panel in &story.panels {
        panels.push(play(&story, panel).await);
    }
    let svg = draw::draw(&story, &panels);
    assert!(svg.len() <= MAX_BYTES, "{} has {} bytes", story.title, svg.len());
    (svg, panels.into_iter().flat_map(|panel| panel.whys).collect())
}

/// Returns a panel for a workflow with one control, written in TOML.
fn work(control: &str, sent: Vec<Sent>) -> Panel {
    let definition = format!("name = \"work\"\n{control}");
    let setting = Setting::Workflows(vec![definition], 100);
    Panel::new(control, setting, sent)
}

fn concurrency() -> Story {
    let acme = |letter, at, works| event(letter, at, works).key("account", "acme");
    let sent = vec![
        acme('a', 0, 2000),
        acme('b', 200, 800).naps(3000, 1000),
        acme('c', 400, 3000),
        acme('d', 600, 3000),
        event('e', 1500, 1500).key("account", "bolt"),
    ];
    let panels = vec![work("concurrency = { limit = 2, key = \"account\" }", sent).asked('c', 500)];
    Story { title: "Concurrency", until: 6000, tick: 100, mark: 1000, panels }
}

fn throttle() -> Story {
    let sent = [('a', 0), ('b', 100), ('c', 200), ('d', 1700)];
    let sent = sent.map(|(letter, at)| event(letter, at, 300)).to_vec();
    let panels = vec![work("throttle = { limit = 2, perMs = 1000 }", sent).asked('c', 300)];
    Story { title: "Throttle", until: 2500, tick: 50, mark: 500, panels }
}

fn rate_limit() -> Story {
    let sent =
        [('a', 0), ('b', 200), ('c', 400), ('d', 600), ('e', 1500), ('f', 1800), ('g', 4000)];
    let sent = sent.map(|(letter, at)| event(letter, at, 600)).to_vec();
    let panels = vec![work("rateLimit = { limit = 3, perMs = 3000 }", sent)];
    Story { title: "Rate limit", until: 5000, tick: 100, mark: 1000, panels }
}

fn debounce() -> Story {
    let x = [('a', 0), ('b', 1000)].map(|(letter, at)| (letter, at, "x"));
    let y = [('c', 500), ('d', 1500), ('e', 3000), ('f', 4500), ('g', 6000)];
    let y = y.map(|(letter, at)| (letter, at, "y"));
    let sent = x.into_iter().chain(y);
    let sent = sent.map(|(letter, at, key)| event(letter, at, 1000).key("doc", key)).collect();
    let control = "debounce = { periodMs = 2000, key = \"doc\", maxWaitMs = 5000 }";
    let burst = || {
        let sent = [('a', 0), ('b', 1000), ('c', 2500)];
        sent.map(|(letter, at)| event(letter, at, 500)).to_vec()
    };
    let panel = |setting| work(&format!("debounce = {{ periodMs = 2000, {setting} }}"), burst());
    let panels = vec![
        work(control, sent).asked('a', 1000),
        panel("keep = \"all\""),
        panel("edge = \"both\""),
    ];
    Story { title: "Debounce", until: 9000, tick: 100, mark: 1000, panels }
}

fn batch() -> Story {
    let x = [('a', 0), ('b', 1000), ('c', 2000), ('d', 4000)];
    let x = x.map(|(letter, at)| (letter, at, "x"));
    let y = [('e', 1500), ('f', 3000)].map(|(letter, at)| (letter, at, "y"));
    let sent = x.into_iter().chain(y);
    let sent = sent.map(|(letter, at, key)| event(letter, at, 1000).key("index", key)).collect();
    let control = "batch = { maxSize = 3, timeoutMs = 5000, key = \"index\" }";
    let panels = vec![work(control, sent).asked('a', 1000)];
    Story { title: "Batch", until: 10_000, tick: 100, mark: 1000, panels }
}

fn priority() -> Story {
    let control = "priority = { shiftMs = 60000 }";
    let bulk =
        [('a', 0, 70_000), ('b', 4000, 10_000), ('c', 10_000, 10_000), ('d', 50_000, 10_000)];
    let mut sent = bulk.map(|(letter, at, works)| event(letter, at, works)).to_vec();
    sent.push(event('u', 65_000, 10_000));
    let definitions = ["name = \"work\"".to_owned(), format!("name = \"work\"\n{control}")];
    let caption = format!("version 1: none, version 2: {control}, one worker");
    let setting = Setting::Versions(definitions, 1, 60_000);
    let panels = vec![Panel::new(&caption, setting, sent).asked('u', 66_000)];
    Story { title: "Priority", until: 120_000, tick: 1000, mark: 20_000, panels }
}

fn singleton() -> Story {
    let sent = [('a', 0), ('b', 1000), ('c', 2000), ('d', 3500)];
    let sent = || sent.map(|(letter, at)| event(letter, at, 3000)).to_vec();
    let panel = |mode| work(&format!("singleton = {{ mode = \"{mode}\" }}"), sent());
    let panels = vec![
        panel("skip"),
        panel("cancel").asked('a', 2000),
        panel("latest").asked('b', 1500).asked('b', 2500),
    ];
    Story { title: "Singleton", until: 10_000, tick: 100, mark: 1000, panels }
}

fn idempotency() -> Story {
    let sent = [
        ('a', 0, "p1"),
        ('b', 1000, "p2"),
        ('c', 2000, "p1"),
        ('d', 3000, "p1"),
        ('e', 5000, "p1"),
    ];
    let sent = sent.map(|(letter, at, key)| event(letter, at, 1000).key("paymentId", key)).to_vec();
    let panels = vec![work("idempotency = { key = \"paymentId\", periodMs = 4000 }", sent)];
    Story { title: "Idempotency", until: 7000, tick: 100, mark: 1000, panels }
}

fn handoff() -> Story {
    let sent = || [('a', 0, 4000), ('b', 500, 2000), ('c', 2500, 2000)];
    let panel = |rule: &str| {
        let control = format!("handoff = {{ type = \"singleton\", onNewVersion = \"{rule}\" }}");
        let sent = sent().map(|(letter, at, works)| event(letter, at, works)).to_vec();
        let setting = Setting::versions(format!("name = \"work\"\n{control}"), 1500);
        Panel::new(&control, setting, sent)
    };
    let panels = vec![
        panel("supersede").asked('a', 3000),
        panel("drain").asked('c', 3000),
        panel("coexist"),
    ];
    Story { title: "Handoff", until: 8000, tick: 100, mark: 1000, panels }
}

fn start_within() -> Story {
    let sent = [('a', 0, 1500), ('b', 100, 1500), ('c', 200, 1500), ('d', 1600, 1000)];
    let sent = sent.map(|(letter, at, works)| event(letter, at, works)).to_vec();
    let control = "startWithinMs = 2000\nconcurrency = { limit = 1 }";
    let panels = vec![work(control, sent).asked('c', 300).asked('c', 2500)];
    Story { title: "Start within", until: 5000, tick: 100, mark: 1000, panels }
}

fn queues() -> Story {
    let panel = |queue: &str| {
        let sent = [('a', 0), ('b', 300), ('c', 600), ('d', 900)];
        let sent = sent.map(|(letter, at)| event(letter, at, 1500)).to_vec();
        let limit = "limit = 1, span = \"run\", queue = ";
        work(&format!("concurrency = {{ {limit}{{ maxWaiting = 2{queue} }} }}"), sent)
    };
    let panels = vec![panel(""), panel(", onOverflow = \"dropOldest\"").asked('b', 1000)];
    Story { title: "Bounded queues", until: 5000, tick: 100, mark: 1000, panels }
}

fn fair() -> Story {
    let tenants = [("acme", "abcde"), ("blue", "fg"), ("coral", "hi")];
    let sent = tenants
        .into_iter()
        .flat_map(|(tenant, letters)| letters.chars().map(move |letter| (letter, tenant)));
    let sent = sent
        .zip(0..)
        .map(|((letter, tenant), n)| event(letter, 50 * n, 800).key("account", tenant));
    let fair = "fair = { by = \"account\", weights = { acme = 2 } }";
    let panel = work(&format!("concurrency = {{ limit = 1, {fair} }}"), sent.collect());
    let panels = vec![panel.asked('e', 500)];
    Story { title: "Fairness", until: 8000, tick: 50, mark: 1000, panels }
}

fn deferred() -> Story {
    let sent = [event('a', 0, 1000).delay(2000), event('b', 1000, 2000), event('c', 2500, 1000)];
    let queue = "concurrency = \"queue\"";
    let panel = Panel::new(queue, Setting::Flow(queue.to_owned(), &["act"]), sent.to_vec());
    Story { title: "Deferred", until: 6000, tick: 100, mark: 1000, panels: vec![panel] }
}

fn adaptive() -> Story {
    let sent = "abcdefghij".chars().zip(0..).map(|(letter, n)| {
        let sent = event(letter, 50 * n, 1000);
        if letter == 'd' { sent.refused(5000) } else { sent }
    });
    let panel =
        work("concurrency = { limit = 2, adaptive = { min = 1, max = 4 } }", sent.collect());
    let panels = vec![panel.asked('g', 2500)];
    Story { title: "Adaptive limits", until: 8000, tick: 50, mark: 1000, panels }
}

fn costs() -> Story {
    let sent = [('a', 0, "2"), ('b', 300, "3"), ('c', 600, "1"), ('d', 900, "1")];
    let sent = sent.map(|(letter, at, gb)| event(letter, at, 1500).key("gb", gb)).to_vec();
    let panel = work("concurrency = { limit = 4, cost = \"gb\" }", sent).asked('b', 1000);
    Story { title: "Costs", until: 5000, tick: 100, mark: 1000, panels: vec![panel] }
}

fn limits_from_data() -> Story {
    let sent = [('a', 0, "1"), ('b', 500, "1"), ('c', 1000, "1"), ('d', 1500, "3")];
    let sent = sent.map(|(letter, at, seats)| event(letter, at, 2000).key("seats", seats));
    let limit = "limit = { from = \"seats\", min = 1, max = 9 }";
    let panel = work(&format!("concurrency = {{ {limit} }}"), sent.to_vec());
    Story { title: "Limits from data", until: 5000, tick: 100, mark: 1000, panels: vec![panel] }
}

fn pools() -> Story {
    let pool = "name = \"gpu\"\nconcurrency = { limit = 4 }";
    let definitions = [("chat", ""), ("index", ", cost = 2")];
    let definitions = definitions
        .map(|(name, cost)| format!("name = \"{name}\"\nconcurrency = {{ pool = \"gpu\"{cost} }}"));
    let sent = [('a', 0, "index"), ('b', 200, "chat"), ('c', 500, "index"), ('d', 800, "chat")];
    let sent = sent.into_iter().chain([('e', 1100, "index")]);
    let sent = sent.map(|(letter, at, to)| event(letter, at, 1500).to(to)).collect();
    let caption = "pool gpu: concurrency = { limit = 4 }\n\
                   chat: concurrency = { pool = \"gpu\" }\n\
                   index: concurrency = { pool = \"gpu\", cost = 2 }";
    let panel = Panel::new(caption, Setting::Workflows(definitions.to_vec(), 100), sent);
    let panels = vec![panel.pool(pool).asked('c', 1200)];
    Story { title: "Pools", until: 5000, tick: 100, mark: 1000, panels }
}

fn closing() -> Story {
    let sent = [('b', 100, 1500), ('c', 300, 1000), ('d', 3200, 1000)];
    let sent = sent.into_iter().map(|(letter, at, works)| event(letter, at, works));
    let sent = [event('a', 0, 800).closes(2000)].into_iter().chain(sent).collect();
    let panels = vec![work("concurrency = { limit = 2 }", sent).asked('c', 2000)];
    Story { title: "A closed gate", until: 6000, tick: 100, mark: 1000, panels }
}

fn cancel_on() -> Story {
    let bought = event('x', 2000, 0).to("cart.bought").key("cart", "1");
    let sent = [('a', 0, "1"), ('b', 500, "2")];
    let sent = sent.map(|(letter, at, cart)| event(letter, at, 500).key("cart", cart));
    let sent = sent.map(|sent| sent.naps(3000, 500)).into_iter().chain([bought]).collect();
    let control = "cancelOn = { event = \"cart.bought\", match = { cart = \"cart\" } }";
    let panels = vec![work(control, sent)];
    Story { title: "Cancelling by events", until: 5000, tick: 100, mark: 1000, panels }
}

fn overrides() -> Story {
    let sent = "abcdef".chars().zip(0..).map(|(letter, n)| event(letter, 100 * n, 1500));
    let panel = work("concurrency = { limit = 3 }", sent.collect());
    let panels = vec![panel.overridden(1000, 1).asked('d', 1200).undone(2500)];
    Story { title: "An override and its undo", until: 5000, tick: 100, mark: 1000, panels }
}

fn policies() -> Story {
    let panel = |policy: &str| {
        let control = format!("concurrency = {policy}");
        let sent = [('a', 0), ('b', 2000), ('c', 2500)].map(|(letter, at)| event(letter, at, 3000));
        Panel::new(&control, Setting::Flow(control.clone(), &["act"]), sent.to_vec())
    };
    let debounce = "{ policy = \"debounce\", periodMs = 1000 }";
    let panels = vec![
        panel("\"allow\""),
        panel("\"queue\"").asked('c', 4000),
        panel("\"reject\""),
        panel("\"restart\"").asked('a', 4000),
        panel(debounce).asked('b', 3800),
    ];
    Story { title: "Policies", until: 9000, tick: 100, mark: 1000, panels }
}

/// Returns a panel for a flow with these lines of TOML.
fn flow(lines: &[&str], actions: &'static [&'static str], sent: Vec<Sent>) -> Panel {
    let setting = Setting::Flow(lines.join("\n"), actions);
    Panel::new(&lines.join("   "), setting, sent)
}

fn append_and_respond() -> Story {
    let sent = || {
        let burst = [('a', 0), ('b', 600), ('c', 1200)];
        let both = burst.into_iter().flat_map(|(letter, at)| {
            let append = event(letter, at, 200).to("append");
            [append, event(letter.to_ascii_uppercase(), at + 200, 1500).to("respond")]
        });
        both.collect()
    };
    let actions = &["append", "respond"];
    let one = flow(&["concurrency = \"queue\""], actions, sent()).asked('b', 1000);
    let split = ["concurrency = \"queue\"", "actions.append.concurrency = \"allow\""];
    let panels = vec![one, flow(&split, actions, sent()).asked('C', 2000)];
    Story { title: "Append and respond", until: 6500, tick: 100, mark: 1000, panels }
}

fn webhook_twice() -> Story {
    let sent = || {
        let push = |letter, at, id| event(letter, at, 1500).id(id);
        vec![push('a', 0, "d1"), push('b', 400, "d1"), push('c', 900, "d2"), push('d', 3000, "d1")]
    };
    let key = "\"metadata.webhook.deliveryId\"";
    let reject = format!("concurrency = {{ policy = \"reject\", key = {key} }}");
    let once = format!("actions.push.idempotency = {{ key = {key} }}");
    let panels = vec![
        flow(&["concurrency = \"allow\""], &["push"], sent()),
        flow(&[&reject], &["push"], sent()),
        flow(&[&reject, &once], &["push"], sent()),
    ];
    Story { title: "A webhook that fires twice", until: 5500, tick: 100, mark: 1000, panels }
}

fn interrupting_user() -> Story {
    let sent = || [('a', 0), ('b', 1000), ('c', 1600)].map(|(letter, at)| event(letter, at, 2000));
    let panel = |lines: &str| flow(&[lines], &["draft"], sent().to_vec());
    let panels = vec![
        panel("concurrency = \"queue\"").asked('c', 1800),
        panel("concurrency = \"restart\"").asked('a', 1500),
        panel("concurrency = { policy = \"debounce\", periodMs = 700 }"),
    ];
    Story { title: "A user who interrupts", until: 6500, tick: 100, mark: 1000, panels }
}
