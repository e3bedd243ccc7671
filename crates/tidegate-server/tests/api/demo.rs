//! `tidegate demo`, from start to stop.
//!
//! The guarantees of the demo are checked by `tidegate demo --headless`, in `scripts/test`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use reqwest::Client;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A demo process. It is killed on drop.
struct Demo {
    process: Child,
    url: String,
    client: Client,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Demo {
    fn start(temporary: &std::path::Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.env_clear().env("TMPDIR", temporary).args(["demo", "--no-open"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().expect("the demo prints its address").unwrap();
        let (_, url) = first.split_once(" running at ").expect("an address");
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, url: url.to_owned(), client }
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    /// Repeats a request until the condition holds for its answer.
    async fn until(&self, path: &str, is_there: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let answer = self.get(path).await;
            if is_there(&answer) {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "the expected answer never came from {path}: {answer}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends Ctrl-C; returns whether the demo exits successfully.
    fn interrupt(&mut self) -> bool {
        let mut kill = Command::new("kill");
        assert!(kill.args(["-INT", &self.process.id().to_string()]).status().unwrap().success());
        self.process.wait().unwrap().success()
    }
}

/// The demo has activity at once and says that it is a demo. When it is stopped, it leaves no
/// files, even if a client is connected.
#[tokio::test]
async fn a_demo_is_alive_until_it_is_stopped_and_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(temporary.path());
    assert_eq!(demo.get("/health").await["demo"], true);
    let gate = "/gates?workflow=render-report&control=concurrency&key=acme";
    demo.until(gate, |answer| answer["gates"][0]["line"]["count"].as_u64() > Some(0)).await;
    demo.until("/receipts?outcome=deduped", |answer| answer["receipts"][0].is_object()).await;
    demo.until("/reactions?blocked=true", |answer| answer["streams"][0].is_object()).await;
    let page = demo.client.get(format!("{}/runs/stream", demo.url)).send().await.unwrap();
    assert!(
        std::fs::read_dir(temporary.path()).unwrap().next().is_some(),
        "the demo must store its data in the temporary folder"
    );
    assert!(demo.interrupt());
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    drop(page);
}
