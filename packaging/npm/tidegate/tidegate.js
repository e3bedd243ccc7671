#!/usr/bin/env node
// Launcher: runs the binary of the package for this platform with the same arguments.
"use strict";

const { spawn } = require("node:child_process");

const platform = `${process.platform}-${process.arch}`;

function binary() {
  try {
    return require.resolve(`@tidegate/${platform}/bin/tidegate`);
  } catch {
    console.error(
      `tidegate: no binary for ${platform}: the package @tidegate/${platform} is not installed; ` +
        "install without --omit=optional, or build from source with `cargo install tidegate-server`",
    );
    process.exit(1);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
// The terminal signals the whole group. A signal to the launcher alone is passed on.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`tidegate: the binary cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
