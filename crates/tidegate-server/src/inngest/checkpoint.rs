//! Checkpoints: steps that an app posts while a call of it lasts.
//!
//! A call names the lease under which its run is driven. Any server of the store takes steps under
//! this lease, and refuses them after another call has taken over.

use axum::{Json, body::Bytes, extract::Path, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tidegate::{Error, NewRecord, StepKind};
use tidegate_core::{command::Refusal, run::record::NewStep};
use tidegate_store::{Clock as _, SystemClock};

use super::{
    access::{Refused, SdkCaller, run_id},
    execute::failed,
    fault::Again,
    opcode::{self, Opcode, Operation},
};

/// Body of a checkpoint. SDKs send more, which is ignored.
#[derive(Deserialize)]
struct Checkpoint<'a> {
    /// The lease, as the call has named it.
    qi_id: String,
    #[serde(borrow)]
    steps: &'a RawValue,
}

/// `POST /v1/checkpoint/{run}/async`.
pub(super) async fn post(
    caller: SdkCaller,
    Path(run): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let run = run_id(&run)?;
    let (lease, records) = read(&body)?;
    match caller.engine.record_in(run, &lease, records).await {
        Ok(()) => Ok(Json(json!({ "data": {} }))),
        Err(Error::Refused(Refusal::Fenced { .. } | Refusal::Ended { .. })) => {
            let message = "a newer call of the run has taken over, or the run has ended";
            Err(Refused::new(StatusCode::CONFLICT, message))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads the lease and the steps of a checkpoint.
fn read(body: &[u8]) -> Result<(String, Vec<NewRecord>), Refused> {
    let bad = |message: String| Refused::new(StatusCode::BAD_REQUEST, message);
    let Checkpoint { qi_id, steps } = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the checkpoint cannot be read: {error}")))?;
    let operations = opcode::read(steps.get(), Again::default(), SystemClock.now());
    let operations = operations.map_err(|error| bad(error.message().to_owned()))?;
    let records = operations.into_iter().map(|Operation { step, opcode, .. }| match opcode {
        Opcode::Ran(value) => Ok(NewStep { id: step, kind: StepKind::Run, result: Ok(value) }),
        Opcode::Failed(error) => Ok(failed(step, StepKind::Run, &error)),
        other => {
            Err(bad(format!("step `{step}`: a checkpoint has steps that have run, got {other:?}")))
        }
    });
    Ok((qi_id, records.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_checkpoint_has_its_lease_and_steps() {
        let body = |steps: &str| {
            format!(
                r#"{{"run_id":"r","fn_id":"f","qi_id":"e:7","request_started_at":1,"steps":{steps},"ts":2}}"#
            )
        };
        let one = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106";
        let ran = format!(
            r#"[{{"id":"{one}","mode":"sync","op":"StepRun","name":"one","userland":{{"id":"one"}},"opts":{{}},"rawArgs":["one",null],"promise":{{}},"data":{{"n": 1.0}}}}]"#
        );
        let (lease, records) = read(body(&ran).as_bytes()).unwrap();
        let [record] = &records[..] else { panic!("{records:?}") };
        assert_eq!((lease.as_str(), record.id.as_str()), ("e:7", "one"));
        assert_eq!(record.result.as_ref().unwrap().as_str(), r#"{"n": 1.0}"#);
        let failed = ran.replace("StepRun", "StepFailed");
        let failed = failed.replace(r#""promise":{}"#, r#""error":{"name":"E","message":"m"}"#);
        let (_, records) = read(body(&failed).as_bytes()).unwrap();
        assert_eq!(records[0].result.as_ref().unwrap_err().message, "m");
        let sleep = ran.replace("StepRun", "Sleep").replace(r#""name":"one""#, r#""name":"1s""#);
        for bad in [body(&sleep), body("1"), "{}".to_owned(), "no".to_owned()] {
            assert_eq!(read(bad.as_bytes()).unwrap_err().status, 400, "{bad}");
        }
    }
}
