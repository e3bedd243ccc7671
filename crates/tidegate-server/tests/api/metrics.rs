//! `GET /metrics`.

use serde_json::json;

use crate::{server::Server, target::Target};

/// Metrics that exist only after a reaction of a program has failed or lost its lease.
const OF_TROUBLE: [&str; 3] = [
    "tidegate_reaction_failures_total",
    "tidegate_reaction_blocks_total",
    "tidegate_reaction_lost_leases_total",
];

/// Metrics that exist only if there are reactions, which only programs can register.
const OF_REACTIONS: [&str; 3] = [
    "tidegate_reaction_claims_total",
    "tidegate_reaction_events_total",
    "tidegate_reaction_lag_seconds",
];

/// Every metric of the documentation is exported after some runs, and so are the numbers of runs by
/// state.
#[tokio::test]
async fn every_metric_of_the_book_can_be_scraped() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{}\"\nconcurrency = {{ limit = 1 }}",
        target.url
    ));
    let first = server.start_run("sync", json!(1)).await;
    server.start_run("sync", json!(2)).await;
    target.called(1).await;
    let text = server.text("/metrics").await;
    for line in [
        "# TYPE tidegate_runs gauge",
        r#"tidegate_runs{workspace="default",app="default",workflow="sync",version="1",state="running"} 1"#,
        r#"tidegate_runs{workspace="default",app="default",workflow="sync",version="1",state="queued"} 1"#,
        r#"tidegate_ready_runs{workspace="default",app="default",workflow="sync",version="1"} 0"#,
        r#"tidegate_waits_total{workflow="sync",control="concurrency"} 1"#,
        r#"tidegate_admissions_total{workflow="sync",verdict="queued"} 1"#,
        "tidegate_driven_runs 1",
        "tidegate_stream_commits_total 0",
        "tidegate_lease_losses_total 0",
        "tidegate_takeovers_total 0",
    ] {
        assert!(
            text.lines().any(|it| it == line),
            "the metrics do not have the line {line}:\n{text}"
        );
    }
    target.open(true);
    server.until(&first, "completed").await;
    let text = server.text("/metrics").await;
    let book = include_str!("../../../../docs/operate/metrics.md");
    let rows = book.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let names: Vec<_> = rows.filter(|name| name.starts_with("tidegate_")).collect();
    assert!(
        names.len() > 10,
        "too few metrics found in the table of docs/operate/metrics.md: {names:?}"
    );
    for name in names {
        let elsewhere = OF_TROUBLE.contains(&name) || OF_REACTIONS.contains(&name);
        let answer = text.contains(&format!("# TYPE {name} "));
        assert!(answer || elsewhere, "metric {name} is documented but not exported:\n{text}");
    }
}
