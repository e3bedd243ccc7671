//! `tidegate dev`: everything for the development of an app in one command.
//!
//! It is `tidegate serve` with other defaults: no keys, apps on this machine, a store in the folder
//! `.tidegate` of the working directory, and the port that Inngest's SDKs expect in development.

use std::{io::Write, net::SocketAddr, path::Path};

use anyhow::Context as _;
use clap::Args;

use crate::{Settings, config::Config};

/// Folder of the store, in the working directory.
const FOLDER: &str = ".tidegate";

/// Default store.
const STORE: &str = "sqlite:.tidegate/dev.db";

/// Port that Inngest's SDKs expect with `INNGEST_DEV=1`.
const SDK_PORT: &str = "127.0.0.1:8288";

/// Hint for a developer who has given no app.
const NO_APP: &str =
    "no app given: `tidegate dev -u http://localhost:3000/api/inngest` syncs one\n";

/// The arguments of `tidegate dev`.
#[derive(Args, Debug)]
pub(crate) struct Dev {
    #[command(flatten)]
    settings: Settings,
    /// URL of an app, such as `http://localhost:3000/api/inngest`; can be given several times.
    #[arg(short = 'u', long = "url", value_name = "URL")]
    urls: Vec<String>,
    /// Address and port for Inngest's SDKs.
    #[arg(long, value_name = "ADDRESS", default_value = SDK_PORT)]
    sdk_listen: String,
}

impl Dev {
    /// Returns the settings of the server.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let store = self.settings.store.clone().unwrap_or_else(|| STORE.to_owned());
        let log = std::env::var("TIDEGATE_LOG").is_err().then(|| "warn".to_owned());
        let urls = self.urls.iter().map(|url| with_scheme(url)).collect::<Vec<_>>().join(",");
        let flags = [
            ("store", Some(store)),
            ("listen", self.settings.listen.clone()),
            ("allowPrivate", Some("all".to_owned())),
            ("log", log),
            ("inngest.listen", Some(self.sdk_listen.clone())),
            ("inngest.apps", (!urls.is_empty()).then_some(urls)),
        ];
        Ok(self.settings.load_with(&flags)?.for_dev())
    }

    /// Creates the folder of the default store. Git ignores it.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        if self.settings.store.is_some() {
            return Ok(());
        }
        let made = std::fs::create_dir_all(FOLDER);
        made.with_context(|| format!("the folder `{FOLDER}` cannot be created"))?;
        let ignored = Path::new(FOLDER).join(".gitignore");
        if !ignored.exists() {
            std::fs::write(ignored, "*\n")?;
        }
        Ok(())
    }
}

/// Returns a URL; one without a scheme is that of a server on this machine.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// Prints the addresses. A write error is ignored, because a closed output must not stop the server.
pub(crate) fn greet(
    out: &mut impl Write,
    (at, sdk): (SocketAddr, Option<SocketAddr>),
    config: &Config,
) {
    let version = env!("CARGO_PKG_VERSION");
    let sdk = sdk.map(|sdk| {
        let set = if sdk.port() == 8288 { "1".to_owned() } else { format!("http://{sdk}") };
        format!("SDKs:    http://{sdk} (start the app with INNGEST_DEV={set})\n")
    });
    let no_app = config.text("inngest.apps").is_empty().then_some(NO_APP);
    let said = [
        format!("tidegate {version} listening on http://{at}\nconsole: http://{at}/\n"),
        sdk.unwrap_or_default(),
        format!("store:   {}\n", config.place()),
        no_app.unwrap_or_default().to_owned(),
    ]
    .concat();
    let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_url_may_lack_its_scheme() {
        for (given, url) in [
            ("localhost:3000", "http://localhost:3000"),
            ("localhost:3000/api/inngest", "http://localhost:3000/api/inngest"),
            ("https://a.test/x", "https://a.test/x"),
        ] {
            assert_eq!(super::with_scheme(given), url);
        }
    }
}
