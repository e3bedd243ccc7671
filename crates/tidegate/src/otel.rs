//! OpenTelemetry: spans and metrics over OTLP/HTTP to a collector.
//!
//! ```no_run
//! # fn main() -> Result<(), tidegate::otel::OtelError> {
//! use tidegate::otel::{self, Options};
//!
//! let guard = otel::install(&Options::new("http://localhost:4318").service_name("shop"))?;
//! // … the program …
//! guard.shutdown()
//! # }
//! ```
//!
//! If a program already has a `tracing` subscriber or a metrics recorder, it calls [`start`]
//! instead of `install`, and adds [`Guard::layer`] and [`Guard::recorder`] to its own.
//!
//! Separate threads export with a blocking HTTP client. An `https://` endpoint needs a certificate
//! that the system trusts; the variables `HTTPS_PROXY` and `NO_PROXY` apply.

mod http;
mod recorder;

use std::time::Duration;

use opentelemetry::{metrics::MeterProvider, trace::TracerProvider};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkError,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{SdkTracer, SdkTracerProvider},
};
use tracing::{Level, Subscriber};
use tracing_subscriber::{
    Layer, Registry, filter::LevelFilter, layer::SubscriberExt, registry::LookupSpan,
};

pub use self::recorder::Recorder;

/// Instrumentation scope of spans and metrics.
const SCOPE: &str = "tidegate";

/// Timeout of one export, and of the final export at the end of the program.
const LIMIT: Duration = Duration::from_secs(5);

/// Export options: the endpoint, and the data to export.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    endpoint: String,
    service_name: String,
    level: Level,
    interval: Duration,
}

impl Options {
    /// Creates options for a collector, such as `http://localhost:4318`.
    ///
    /// The paths `/v1/traces` and `/v1/metrics` are appended.
    pub fn new(endpoint: impl Into<String>) -> Self {
        let (service_name, interval) = (SCOPE.to_owned(), Duration::from_mins(1));
        Self { endpoint: endpoint.into(), service_name, level: Level::INFO, interval }
    }

    /// Sets the name of the program.
    ///
    /// Defaults to `tidegate`.
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.service_name = name.into();
        self
    }

    /// Sets the minimum level of spans.
    ///
    /// Defaults to `INFO`: one span for each time that a run is driven.
    ///
    /// `DEBUG` adds steps, posts and dispatches.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Sets the interval at which metrics are sent.
    ///
    /// Defaults to a minute.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }
}

/// Error of the telemetry export.
#[derive(Debug, thiserror::Error)]
pub enum OtelError {
    /// The endpoint is invalid.
    #[error(
        "the OTLP endpoint `{endpoint}` {reason}; give the address of a collector without TLS, \
         such as http://localhost:4318"
    )]
    Endpoint {
        /// Endpoint as given in the options.
        endpoint: String,
        /// Reason why the endpoint is invalid.
        reason: String,
    },
    /// The exporter rejects its configuration, to which environment variables belong.
    #[error("the OTLP exporter cannot be built (see also the variables OTEL_*): {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The program already has a `tracing` subscriber or a metrics recorder.
    #[error(
        "the program has {0} already; use `otel::start` and add the guard's layer and recorder \
         to it"
    )]
    Taken(&'static str),
    /// The remaining telemetry could not be sent.
    #[error("spans or metrics could not be exported, the log says why: {0}")]
    Flush(#[from] OTelSdkError),
}

/// Guard of the telemetry export. On drop, it sends the pending telemetry, for a few seconds at
/// most, and stops the export.
#[derive(Debug)]
#[must_use = "nothing is exported once it is dropped"]
pub struct Guard {
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    level: Level,
}

/// Starts the export, and installs its subscriber and its recorder globally.
pub fn install(options: &Options) -> Result<Guard, OtelError> {
    if tracing::dispatcher::has_been_set() {
        return Err(OtelError::Taken("a tracing subscriber"));
    }
    let guard = start(options)?;
    let taken = |_| OtelError::Taken("a metrics recorder");
    metrics::set_global_recorder(guard.recorder()).map_err(taken)?;
    let subscriber = Registry::default().with(guard.layer());
    let taken = |_| OtelError::Taken("a tracing subscriber");
    tracing::subscriber::set_global_default(subscriber).map_err(taken)?;
    Ok(guard)
}

/// Starts the export of the telemetry that the guard's layer and recorder receive.
pub fn start(options: &Options) -> Result<Guard, OtelError> {
    http::check(&options.endpoint)
        .map_err(|reason| OtelError::Endpoint { endpoint: options.endpoint.clone(), reason })?;
    let endpoint = options.endpoint.trim_end_matches('/');
    let client = http::client(endpoint, LIMIT).map_err(|error| {
        let reason = format!("cannot be used: {error}");
        OtelError::Endpoint { endpoint: options.endpoint.clone(), reason }
    })?;
    let spans = SpanExporter::builder()
        .with_http()
        .with_http_client(http::Client::new(client.clone()))
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .with_timeout(LIMIT)
        .build()?;
    let metrics = MetricExporter::builder()
        .with_http()
        .with_http_client(http::Client::new(client))
        .with_endpoint(format!("{endpoint}/v1/metrics"))
        .with_timeout(LIMIT)
        .build()?;
    let resource = Resource::builder().with_service_name(options.service_name.clone()).build();
    let tracers = SdkTracerProvider::builder()
        .with_resource(resource.clone())
        .with_batch_exporter(spans)
        .build();
    let reader = PeriodicReader::builder(metrics).with_interval(options.interval).build();
    let meters = SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build();
    Ok(Guard { tracers, meters, level: options.level })
}

impl Guard {
    /// Returns a layer that exports spans and the log events within them.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let tracer: SdkTracer = self.tracers.tracer(SCOPE);
        // Without source locations: they are the same for each kind of span, and cost more than all
        // other attributes.
        let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_location(false);
        layer.with_threads(false).with_filter(LevelFilter::from_level(self.level))
    }

    /// Returns a recorder that exports metrics.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(self.meters.meter(SCOPE))
    }

    /// Sends all pending telemetry.
    ///
    /// This call blocks. In async code, call it where blocking is allowed.
    pub fn flush(&self) -> Result<(), OtelError> {
        self.tracers.force_flush()?;
        Ok(self.meters.force_flush()?)
    }

    /// Sends all pending telemetry, and stops the export.
    ///
    /// This call blocks; dropping the guard does so, too.
    pub fn shutdown(self) -> Result<(), OtelError> {
        self.end()
    }

    fn end(&self) -> Result<(), OtelError> {
        let spans = self.tracers.shutdown_with_timeout(LIMIT);
        let metrics = self.meters.shutdown_with_timeout(LIMIT);
        Ok(spans.and(metrics)?)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        match self.end() {
            Ok(()) | Err(OtelError::Flush(OTelSdkError::AlreadyShutdown)) => {}
            Err(error) => tracing::warn!(%error, "sending the last telemetry failed"),
        }
    }
}
