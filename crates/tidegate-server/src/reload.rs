//! SIGHUP: the file is read again, and what has changed in it is defined.

use tidegate::Engine;
use tokio::signal::unix::Signal;

use crate::{config::Config, serve::define};

/// Reads the file again whenever the process is told to, for as long as it lives.
pub(crate) async fn on_hangup(
    mut hangups: Signal,
    engine: Engine,
    mut known: Config,
    load: impl Fn() -> anyhow::Result<Config>,
) {
    while hangups.recv().await.is_some() {
        let loaded = async {
            let config = load()?;
            apply(&engine, &known, &config).await?;
            anyhow::Ok(config)
        };
        match loaded.await {
            Ok(config) => known.take_definitions(config),
            Err(error) => {
                tracing::error!("the file was read again, and nothing was changed: {error:#}");
            }
        }
    }
}

/// Defines what the file says now, all of it or nothing, and says what else is different in it.
async fn apply(engine: &Engine, known: &Config, config: &Config) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.workspace == known.workspace,
        "`workspace` is `{}` now, and this server has `{}`: start it again",
        config.workspace,
        known.workspace
    );
    let changed = define(engine, config).await?;
    tracing::info!(changed, "the file was read again");
    for setting in known.differing(config) {
        tracing::warn!("`{setting}` is different in the file now: it counts after a restart");
    }
    for name in known.dropped(config) {
        tracing::warn!(
            "`{name}` is no longer in the file and stays defined; `tidegate workflows delete` \
             takes it away"
        );
    }
    Ok(())
}
