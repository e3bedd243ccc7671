//! The test side of a process: starts it, signals it, waits for its end.

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::{
    child::{Orders, Role},
    journal::Journal,
    place::Place,
};

/// The surroundings of one test: a folder with a journal, and a store.
#[derive(Debug)]
pub(crate) struct Scene {
    folder: PathBuf,
    pub(crate) journal: Journal,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let name = format!("tidegate-processes-{:016x}", RandomState::new().hash_one(0));
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let journal = Journal::open(&folder.join("journal"));
        Self { folder, journal }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Lets the processes continue that wait for this door.
    pub(crate) fn open_door(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    /// Starts a process.
    pub(crate) fn start(
        &self,
        role: Role,
        name: &str,
        place: &Place,
        ttl: Duration,
        stop_at: Option<&str>,
    ) -> Process {
        let orders = Orders {
            role,
            name: name.to_owned(),
            place: place.clone(),
            folder: self.folder.clone(),
            ttl,
            stop_at: stop_at.map(str::to_owned),
        };
        Process::start(&orders)
    }

    /// Deletes the folder after success. It is kept where the test fails.
    pub(crate) fn clear(self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A process, killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Open for as long as this process lives, so that no child outlives it. Kept apart from the
    /// child, because waiting for the child would close it.
    _leash: Option<ChildStdin>,
}

impl Process {
    fn start(orders: &Orders) -> Self {
        let mut child = Command::new(env::current_exe().expect("a test is a program"))
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(Orders::VARIABLE, serde_json::to_string(orders).expect("plain data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the test can start itself");
        Self { _leash: child.stdin.take(), child }
    }

    /// Sends a signal that the standard library does not have.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("there is a `kill`");
        assert!(sent.success(), "{name} could not be sent");
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("it is a child of this process")
    }

    fn end(&mut self) {
        self.child.kill().expect("it is a child of this process");
        self.child.wait().expect("it is a child of this process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Opens the journal in a child's folder.
pub(crate) fn journal_of(folder: &Path) -> Journal {
    Journal::open(&folder.join("journal"))
}
