//! `tidegate dev`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use super::{app, function};
use crate::target::Target;

/// A process of `tidegate dev`. It is killed on drop.
struct Dev {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Dev {
    fn start(folder: &std::path::Path, arguments: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        // Ports that are free: other tests run beside this one.
        command.args(["dev", "--listen", "127.0.0.1:0", "--sdk-listen", "127.0.0.1:0"]);
        command.args(arguments).env_clear().env("INNGEST_SIGNING_KEY", "ignored");
        let mut process = command.current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Returns the next line that begins with a text.
    fn line(&mut self, start: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.starts_with(start)).expect("the line is never printed")
    }
}

/// One command starts engine, console and both ports, and finds an app that starts later. The store
/// is in a folder that Git ignores, and survives a kill.
#[tokio::test(flavor = "multi_thread")]
async fn one_command_serves_an_app() {
    let folder = tempfile::tempdir().unwrap();
    let text = app(&[function("pay", json!({})), function("ship", json!({}))]).to_string();
    let target = Target::start(move |_, before| match before {
        0 => (500, vec![("x-inngest-sdk", "js:v4")], "{\"message\":\"not yet\"}".to_owned()),
        _ => {
            let kind = ("x-inngest-sync-kind", "in_band");
            (200, vec![("x-inngest-sdk", "js:v4"), kind], text.clone())
        }
    });
    let target = target.await;
    let url = format!("{}/api/inngest", target.url);
    let mut dev = Dev::start(folder.path(), &["-u", &url]);
    let console = dev.line("console: ");
    let sdks = dev.line("SDKs: ");
    assert!(sdks.contains("start the app with INNGEST_DEV=http://127.0.0.1:"), "{sdks}");
    assert_eq!(dev.line("store: "), "store:   sqlite:.tidegate/dev.db");
    let failed = dev.line("app at ");
    assert!(failed.ends_with("500 Internal Server Error: not yet"), "{failed}");
    assert_eq!(dev.line("app `shop`"), "app `shop`: 2 functions: pay, ship");
    let ignored = std::fs::read_to_string(folder.path().join(".tidegate/.gitignore")).unwrap();
    assert_eq!(ignored, "*\n");
    let base = console.split_whitespace().last().unwrap().to_owned();
    let page = reqwest::get(&base).await.unwrap().text().await.unwrap();
    assert!(page.contains("<html"), "{page}");
    let sdk = sdks.split_whitespace().nth(1).unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let event = json!({ "name": "shop/pay" }).to_string();
    let answer = client.post(format!("{sdk}/e/key")).body(event).send().await.unwrap();
    assert_eq!(answer.headers()["x-inngest-server-kind"], "dev");
    drop(dev);
    let mut dev = Dev::start(folder.path(), &[]);
    let console = dev.line("console: ");
    assert!(dev.line("no app given").contains("tidegate dev -u"));
    let base = console.split_whitespace().last().unwrap();
    let runs = client.get(format!("{base}runs?workflow=pay")).send().await.unwrap();
    let runs: Value = serde_json::from_str(&runs.text().await.unwrap()).unwrap();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}
