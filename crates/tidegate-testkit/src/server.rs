//! A temporary server for tests, started by a script that stops it when the script's standard input
//! is closed.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdout, Command, Stdio},
};

/// The directory of the scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

/// Exit status of a script if the machine has no such server.
const NONE_FOUND: i32 = 3;

/// A temporary server, which runs until the value is dropped or its process ends.
#[derive(Debug)]
pub struct Server {
    url: String,
    /// The running script. This handle keeps its standard input open.
    script: Child,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a separate server by `scripts/<name>`. Returns `None` if the machine has no such
    /// server.
    pub fn start(name: &str) -> Option<Self> {
        Self::begin(name, &[], &[])
    }

    /// As [`Self::start`], with these variables in the script's environment.
    pub fn start_for(name: &str, variables: &[(&str, &str)]) -> Option<Self> {
        Self::begin(name, &[], variables)
    }

    /// As [`Self::start`], with these arguments for the script.
    pub fn start_with(name: &str, arguments: &[&str]) -> Option<Self> {
        Self::begin(name, arguments, &[])
    }

    fn begin(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Self> {
        let mut script = Command::new(format!("{SCRIPTS}/{name}"))
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A process group of its own: Ctrl-C in the terminal, and a runner that kills the group
            // of the test, do not reach the script.
            .process_group(0)
            .spawn()
            .expect("the script is in the tree and executable");
        let mut url = String::new();
        let stdout = script.stdout.take().expect("standard output is piped");
        let mut output = BufReader::new(stdout);
        output.read_line(&mut url).expect("the script writes text");
        if url.is_empty() {
            let mut complaint = String::new();
            let mut stderr = script.stderr.take().expect("standard error is piped");
            stderr.read_to_string(&mut complaint).expect("the script writes text");
            let status = script.wait().expect("the script is a child of this process");
            assert_eq!(
                status.code(),
                Some(NONE_FOUND),
                "the script could not start a temporary {name}: {complaint}"
            );
            return None;
        }
        Some(Self { url: url.trim_end().to_owned(), script, output })
    }

    /// Sends a command to the script; returns its answer.
    pub fn command(&mut self, command: &str) -> String {
        let input = self.script.stdin.as_mut().expect("standard input is piped");
        writeln!(input, "{command}").expect("the script reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the script writes text");
        assert!(!answer.is_empty(), "the script failed at `{command}`: {}", self.complaint());
        answer.trim_end().to_owned()
    }

    fn complaint(&mut self) -> String {
        let mut complaint = String::new();
        let mut stderr = self.script.stderr.take().expect("standard error is piped");
        stderr.read_to_string(&mut complaint).expect("the script writes text");
        complaint
    }

    /// Returns the URL to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // If the wait fails, there is nothing to do: the script ends by itself.
        let _ = self.script.wait();
    }
}
