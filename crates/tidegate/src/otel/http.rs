//! HTTP client for exports. It is a blocking client, because exporters call it on threads of their
//! own.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Checks an endpoint. The error describes what is wrong with it.
pub(super) fn check(endpoint: &str) -> Result<(), String> {
    if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
        return Err("does not begin with http:// or https://".to_owned());
    }
    match Request::post(endpoint).body(()) {
        Err(error) => Err(format!("is no URL: {error}")),
        Ok(request) if request.uri().query().is_some() => Err("has a query".to_owned()),
        Ok(_) => Ok(()),
    }
}

/// Creates the client for an endpoint. For https, it trusts the certificates of the system.
pub(super) fn client(endpoint: &str, limit: Duration) -> Result<reqwest::blocking::Client, String> {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let tls = if endpoint.starts_with("https://") {
        tls.with_platform_verifier().map_err(|error| error.to_string())?
    } else {
        tls.with_root_certificates(RootCertStore::empty())
    };
    let builder = reqwest::blocking::Client::builder().timeout(limit);
    let builder = builder.tls_backend_preconfigured(tls.with_no_client_auth());
    // Built on another thread: building a blocking client waits for a runtime, which is not allowed
    // inside an async runtime.
    let built = thread::spawn(|| builder.build()).join();
    built.map_err(|_| "the client panicked".to_owned())?.map_err(|error| with_sources(&error))
}

/// Client that logs once when exports begin to fail, and once when they work again.
#[derive(Debug)]
pub(super) struct Client {
    client: reqwest::blocking::Client,
    /// Whether the last export failed; its failure has been logged.
    failing: AtomicBool,
}

impl Client {
    pub(super) fn new(client: reqwest::blocking::Client) -> Self {
        Self { client, failing: AtomicBool::new(false) }
    }

    fn log(&self, outcome: Result<(), String>) {
        let failing = outcome.is_err();
        if self.failing.swap(failing, Ordering::Relaxed) != failing {
            match outcome {
                Ok(()) => tracing::info!("telemetry export resumed"),
                Err(error) => tracing::warn!(error, "telemetry export failed, dropping telemetry"),
            }
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri().clone();
        let answer = self.client.send_bytes(request).await;
        self.log(match &answer {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("{uri} answered {}", response.status())),
            Err(error) => Err(format!("{uri}: {}", with_sources(&**error))),
        });
        answer
    }
}

/// Returns the text of an error with its causes. The text of `reqwest` alone names only the URL.
fn with_sources(error: &(dyn Error + 'static)) -> String {
    let (mut texts, mut cause) = (vec![error.to_string()], error.source());
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.join(": ")
}
