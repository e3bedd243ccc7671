//! Processes with three kinds of reactions, and the points at which each kind can be killed.

use serde_json::json;
use std::time::Duration;
use tidegate::{Reaction, ReactionCtx, StreamEvent};

use crate::child::{Me, pause};

/// Length of a lease on a stream.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// Names of the reactions. Their effects are in another stream, in a table, and outside of the
/// store.
pub(crate) const REACTIONS: [&str; 3] = ["echo", "table", "outside"];

/// Points at which a process can stop, one for each reaction: the handler is done, and the event is
/// not acked yet.
pub(crate) const POINTS: [&str; 3] = ["echoed", "folded", "handled"];

/// Returns the name of the stream to which the reaction `echo` copies the events of a stream.
pub(crate) fn echo_of(stream: &str) -> String {
    format!("echo-{stream}")
}

fn reaction(name: &str) -> Reaction {
    Reaction::new(name).source("work-*").lease_time(LEASE)
}

fn echo(me: &'static Me) -> Reaction {
    reaction("echo").on_any(move |ctx: ReactionCtx, event: StreamEvent| async move {
        ctx.commit_named(&echo_of(&event.stream), "echoed", json!(event.version))?;
        me.point("echoed");
        Ok(())
    })
}

fn outside(me: &'static Me) -> Reaction {
    reaction("outside").on_any(move |_, event: StreamEvent| async move {
        me.note(&format!("did {} {}", event.stream, event.version));
        me.point("handled");
        Ok(())
    })
}

fn table(me: &'static Me) -> Reaction {
    reaction("table").fold_postgres(move |tx, events| async move {
        let insert = format!("insert into {} values ($1, $2)", me.orders.place.table());
        for event in &events {
            let key = format!("{}/{}", event.stream, event.version);
            tx.execute(&insert, &[&key, &me.name()]).await?;
        }
        me.point("folded");
        Ok(())
    })
}

/// Handles events until the process is killed.
pub(crate) async fn live(me: &'static Me) {
    let reactions = [echo(me), outside(me), table(me)];
    let builder = me.engine().await.poll_interval(LEASE / 4);
    let builder = reactions.into_iter().fold(builder, tidegate::EngineBuilder::reaction);
    let _engine = builder.start().await.unwrap();
    me.note("ready");
    pause(Duration::from_mins(10)).await;
}
