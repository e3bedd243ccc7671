//! Policies: in a chat, many messages in a short time are answered in their order.
//!
//! Look at a session of `support`: messages are stored at once, replies are queued, and each reply
//! was written with every earlier message in view. Its words are streamed as they are written.

use std::sync::Arc;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::{Action, Ctx, EngineBuilder, Flow, Policy, Result};

use super::{Check, Ledger, Seen, Town, work};

const FLOW: &str = "support";

#[derive(Clone, Serialize, Deserialize)]
struct Message {
    /// Number of the message in its conversation, from 1.
    n: usize,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Reply {
    to: usize,
    text: String,
    /// Messages that were stored when the reply was written.
    seen: Vec<Message>,
    /// Number of the reply in its conversation, from 1.
    place: usize,
}

async fn append(ctx: Ctx, message: Message) -> Result<u64> {
    ctx.session()?.append("take", "messages", message).await
}

async fn respond(ctx: Ctx, message: Message, ledger: Arc<Ledger>) -> Result<Reply> {
    let session = ctx.session()?;
    let _writing = ledger.enter(FLOW, session.id());
    let seen: Vec<Message> = session.get("read", "messages").await?.unwrap_or_default();
    ctx.step("think", || work(300)).await?;
    let text = format!("You said “{}”. Give us a moment, we look into it.", message.text);
    ctx.step("write", || async {
        for word in text.split(' ') {
            ctx.emit(word)?;
            work(40).await?;
        }
        Ok(())
    })
    .await?;
    let place = usize::try_from(session.append("keep", "replies", &text).await?)?;
    Ok(Reply { to: message.n, text, seen, place })
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let ledger = ledger.clone();
    let respond = move |ctx, message| respond(ctx, message, ledger.clone());
    let append = Action::new("append", append).policy(Policy::allow());
    let respond = Action::new("respond", respond).policy(Policy::queue());
    builder.flow(Flow::new(FLOW).action(append).action(respond))
}

/// Returns the HTTP ingress of the flow.
pub(super) fn way() -> Value {
    json!({
        "name": FLOW,
        "actions": { "append": {}, "respond": {} },
        "chat": { "append": "append", "respond": "respond" },
    })
}

const SAID: [&str; 6] =
    ["Hello?", "My order is late.", "It was number 4711.", "Are you there?", "Hurry!", "Thanks."];

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    tokio::try_join!(person(&town, "ada"), person(&town, "grace")).map(drop)
}

/// Conversations of a person who sends the next message without waiting for a reply.
async fn person(town: &Town, name: &str) -> anyhow::Result<()> {
    let mut chance = town.chance(name);
    for conversation in 1.. {
        let session = format!("{name}-{conversation}");
        let mut replies = Vec::new();
        for n in 1..=usize::try_from(chance.of(2..=6))? {
            let message = Message { n, text: SAID[n - 1].to_owned() };
            replies.push(write(town, &session, &message).await?);
            town.pause(chance.of(50..=400)).await;
        }
        for (at, reply) in replies.into_iter().enumerate() {
            check_reply(&town.ledger, at + 1, &read(reply).await?);
        }
        if !town.pause(chance.of(1000..=5000)).await {
            break;
        }
    }
    Ok(())
}

/// Sends a message. When this returns, the message is stored, and its reply is not written yet.
async fn write(town: &Town, session: &str, message: &Message) -> anyhow::Result<reqwest::Response> {
    let url = format!("{}/flows/{FLOW}/sessions/{session}/messages", town.server);
    let body = json!({ "input": message, "user": session }).to_string();
    let request = town.http.post(url).header("content-type", "application/json").body(body);
    let answer = request.send().await?.error_for_status()?;
    Ok(answer)
}

/// Reads the stream until the reply is complete.
async fn read(reply: reqwest::Response) -> anyhow::Result<Value> {
    let text = reply.text().await?;
    let (_, end) = text.split_once("event: end\ndata: ").context("the reply did not end")?;
    Ok(serde_json::from_str(end.lines().next().unwrap_or_default())?)
}

fn check_reply(ledger: &Ledger, n: usize, end: &Value) {
    let reply = Reply::deserialize(&end["output"]);
    // A reply that a user cancelled has no output, so it is not checked.
    let Ok(Reply { to, seen, place, .. }) = reply else { return };
    ledger.count("replies", 1);
    if (to, place) != (n, n) {
        let how =
            format!("message {n} got the reply to message {to}, which is reply number {place}");
        ledger.broken("chat", &how);
    }
    let in_order = seen.iter().enumerate().all(|(at, message)| message.n == at + 1);
    if seen.len() < n || !in_order {
        let seen: Vec<usize> = seen.iter().map(|message| message.n).collect();
        ledger.broken(
            "chat",
            &format!("the reply to message {n} must have seen messages 1 to {n}, saw {seen:?}"),
        );
    }
}

pub(super) fn order(seen: &Seen) -> Check {
    let (replies, broken) = (seen.ledger.counted("replies"), seen.ledger.all_broken("chat"));
    let most = seen.ledger.most(FLOW);
    let what = format!(
        "{replies} replies, {most} at once, each after all messages before it {}",
        broken.join("; ")
    );
    Check::new(replies > 0 && most == 1 && broken.is_empty(), what.trim_end())
}
