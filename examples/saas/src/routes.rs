//! HTTP: starts workflows, reports their status, streams their output.

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::{get, post},
};
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};
use tidegate::{Engine, Error, RunHandle, RunId, RunStatus, RunUpdate, Verdict};

use crate::workflows::{ANSWER, ONBOARD, Question, REPORT, Report, Signup, TRIP, Trip};

/// Builds the router.
pub fn router(engine: Engine) -> Router {
    Router::new()
        .route("/signups", post(sign_up))
        .route("/reports", post(order_report))
        .route("/reports/{run}", get(show_report))
        .route("/trips", post(book_trip))
        .route("/questions", post(ask))
        .with_state(engine)
}

/// Error of an operation, converted to an HTTP response.
struct Refused(Error);

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0.code() {
            "not_started" => StatusCode::TOO_MANY_REQUESTS,
            "no_run" => StatusCode::NOT_FOUND,
            "run_failed" | "run_cancelled" => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let body = json!({ "code": self.0.code(), "message": self.0.to_string() });
        (status, Json(body)).into_response()
    }
}

fn accepted<O>(run: &RunHandle<O>) -> (StatusCode, Json<Value>) {
    let verdict = run.verdict().map(Verdict::outcome);
    (StatusCode::ACCEPTED, Json(json!({ "run": run.id(), "verdict": verdict })))
}

async fn sign_up(
    State(engine): State<Engine>,
    Json(signup): Json<Signup>,
) -> Result<impl IntoResponse, Refused> {
    Ok(accepted(&engine.start(&ONBOARD, signup).await?))
}

async fn order_report(
    State(engine): State<Engine>,
    Json(report): Json<Report>,
) -> Result<impl IntoResponse, Refused> {
    Ok(accepted(&engine.start(&REPORT, report).await?))
}

async fn show_report(
    State(engine): State<Engine>,
    Path(run): Path<RunId>,
) -> Result<Json<Value>, Refused> {
    let run = engine.handle::<String>(run);
    let status = run.status().await?;
    Ok(Json(if status == RunStatus::Completed {
        json!({ "status": "completed", "url": run.output().await? })
    } else {
        // The answer of `why`: the gate, the runs that hold it, and the position in the queue.
        json!({ "status": status.as_str(), "why": run.why().await?.sentence })
    }))
}

async fn book_trip(
    State(engine): State<Engine>,
    Json(trip): Json<Trip>,
) -> Result<Json<Value>, Refused> {
    Ok(Json(json!(engine.start(&TRIP, trip).await?.output().await?)))
}

async fn ask(
    State(engine): State<Engine>,
    Json(question): Json<Question>,
) -> Result<Sse<impl Stream<Item = Result<Event, Error>>>, Refused> {
    let run = engine.start(&ANSWER, question).await?;
    let words = run.updates().filter_map(async |update| match update {
        Ok(RunUpdate::Chunk(chunk)) => Some(Ok(Event::default().data(chunk.to_string()))),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    Ok(Sse::new(words))
}
