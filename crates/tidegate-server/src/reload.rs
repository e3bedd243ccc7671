//! Config reload: on SIGHUP the server reads the config file again and registers changed
//! definitions.

use tidegate::Engine;
use tokio::signal::unix::Signal;

use crate::{config::Config, serve::define};

/// Reloads the config file on each SIGHUP, until the process ends.
pub(crate) async fn on_hangup(
    mut hangups: Signal,
    engine: Engine,
    mut current: Config,
    load: impl Fn() -> anyhow::Result<Config>,
) {
    while hangups.recv().await.is_some() {
        let loaded = async {
            let config = load()?;
            apply(&engine, &current, &config).await?;
            anyhow::Ok(config)
        };
        match loaded.await {
            Ok(config) => current.take_definitions(config),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(%error, "reloading the config file failed, nothing was changed");
            }
        }
    }
}

/// Registers the definitions of the config file, all or none, and logs changed settings, which need
/// a restart.
async fn apply(engine: &Engine, current: &Config, config: &Config) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.workspace == current.workspace,
        "`workspace` is now `{}`, but this server uses `{}`: restart the server",
        config.workspace,
        current.workspace
    );
    let changed = define(engine, config).await?;
    tracing::info!(changed, "config file reloaded");
    for setting in current.differing(config) {
        tracing::warn!(setting, "setting changed in the file; restart the server to apply it");
    }
    for name in current.dropped(config) {
        tracing::warn!(
            name,
            "removed from the file but still registered; `tidegate workflows delete` deletes it"
        );
    }
    Ok(())
}
