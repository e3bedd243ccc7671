//! A store's clock that steps back: engines notice, and nothing stands still for the step.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::{
    Batch, Ctx, Debounce, Rate, Workflow,
    store::Store,
    testing::{Lab, VirtualClock},
};

use crate::{
    mixed_leases::Settable,
    stores,
    words::{Journal, burst, ms, secs, start, states, work},
};

/// I14: what waits when the clock steps back, by forty seconds and by an hour, goes on after its own
/// period, and an engine that is started later finds it too.
async fn nothing_stands_still(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    let lab = Lab::on(store, clock);
    let journal = Journal::new(&lab);
    let call = || work(&journal, "call", ms(0)).throttle(Rate::of(1, secs(10)));
    let save = || work(&journal, "save", ms(0)).debounce(Debounce::quiet(secs(10)));
    let index = || {
        let index = Workflow::new("index", |_: Ctx, _: Vec<Value>| async { Ok(()) });
        index.batch(Batch::of(100).within(secs(10)))
    };
    let nap = || {
        Workflow::new("nap", |ctx: Ctx, _: Value| async move { ctx.sleep("nap", secs(10)).await })
    };
    let begin = async || {
        let builder = lab.engine().workflow(call()).workflow(save());
        builder.workflow(index()).workflow(nap()).start().await.unwrap()
    };
    let mut engine = begin().await;
    let mut behind = 0;
    for (round, step) in [40, 3600, 40].into_iter().enumerate() {
        // The first one starts at once, and each one after it waits.
        burst(&engine, "call", if round == 0 { 2 } else { 1 }).await;
        for name in ["save", "index", "nap"] {
            start(&engine, name, json!({ "n": 0 })).await;
        }
        lab.settle().await;
        if round == 2 {
            // Nobody is there when the clock steps back.
            engine.shut_down().await;
        }
        behind += step;
        settable.set(-behind * 1_000_000);
        if round == 2 {
            engine = begin().await;
        }
        // Its own period, and a second to notice.
        for _ in 0..12 {
            lab.advance(secs(1)).await;
        }
        for (name, more) in [("call", 1), ("save", 0), ("index", 0), ("nap", 0)] {
            let all = vec!["completed"; round + 1 + more];
            assert_eq!(states(&lab, name).await, all, "`{name}` after {step} s back");
        }
    }
}

macro_rules! on_each_store {
    ($($test:ident: $open:ident,)*) => {
        $(#[tokio::test]
        async fn $test() {
            let clock = Arc::new(VirtualClock::default());
            let settable = Arc::new(Settable::new(clock.clone()));
            let Some(store) = stores::$open(settable.clone()).await else { return };
            nothing_stands_still(store, clock, &settable).await;
        })*
    };
}

on_each_store! {
    nothing_stands_still_when_the_clock_steps_back_on_memory: open_memory,
    nothing_stands_still_when_the_clock_steps_back_on_sqlite: open_sqlite,
    nothing_stands_still_when_the_clock_steps_back_on_postgres: open_postgres,
}
