//! The test's side of a process: starts it, sends signals to it, and waits for its end.

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

/// Environment of one test: a folder with a journal, and a store.
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

    /// Opens a door: the processes that wait for it continue.
    pub(crate) fn open_door(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    /// Starts a child process with these orders.
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

    /// Deletes the folder. If the test fails, this is not called and the folder stays.
    pub(crate) fn clear(self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A child process. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Standard input of the child. It stays open as long as this process lives, so that the child
    /// ends with it. It is kept outside of `child`, because waiting for the child would close it.
    _leash: Option<ChildStdin>,
}

impl Process {
    fn start(orders: &Orders) -> Self {
        let mut child =
            Command::new(env::current_exe().expect("the path of the test program is known"))
                .args(["--exact", "child", "--ignored", "--nocapture"])
                .env(Orders::VARIABLE, serde_json::to_string(orders).expect("plain data"))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("the test program can be started");
        Self { _leash: child.stdin.take(), child }
    }

    /// Sends a signal by its name, with the command `kill`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("there is a `kill`");
        assert!(sent.success(), "signal {name} could not be sent");
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Waits until the process ends by itself.
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
