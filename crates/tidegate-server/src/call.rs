//! HTTP calls: workflows without code in the engine. Each run of such a workflow is one durable
//! call of a URL.

mod relay;
mod resend;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use axum::body::Bytes;
use reqwest::{
    Client, Method, Response, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde_json::value::RawValue;
use tidegate::{Ctx, Handler, MAX_VALUE_BYTES, Result, StepError};
use tidegate_core::{
    definition::{Definition, MAX_CALL_TIMEOUT_MS, OnFailure, OnTooMany},
    json::Payload,
    time::Timestamp,
};
use tidegate_store::{Clock as _, SystemClock};

use crate::sign::{self, Secret};

/// Name of the step that makes the call.
const STEP: &str = "call";

/// Private network addresses that calls may reach (setting `allowPrivate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Private {
    None,
    Loopback,
    All,
}

impl std::str::FromStr for Private {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> anyhow::Result<Self> {
        Ok(match word {
            "none" => Self::None,
            "loopback" => Self::Loopback,
            "all" => Self::All,
            _ => anyhow::bail!("`allowPrivate` must be none, loopback or all, got `{word}`"),
        })
    }
}

impl Private {
    fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Loopback => is_global(address) || address.to_canonical().is_loopback(),
            Self::None => is_global(address),
        }
    }
}

/// Returns the IP address in a URL, if its host is one and not a name. The URL parser has
/// normalized all spellings (one number, octal, hexadecimal, with a trailing dot) to four numbers.
fn address(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether an IP address is public.
fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_global_v4(v4),
        IpAddr::V6(v6) => is_global_v6(v6),
    }
}

fn is_global_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let shared = a == 100 && (64..128).contains(&b);
    // IETF protocol assignments, and the former 6to4 relay anycast.
    let protocol = [(192, 0, 0), (192, 88, 99)].contains(&(a, b, c));
    let benchmark = a == 198 && (b == 18 || b == 19);
    let special =
        v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_documentation();
    // Addresses from 224.0.0.0 on: multicast, reserved, broadcast.
    !(special || shared || protocol || benchmark || a == 0 || a >= 224)
}

fn is_global_v6(v6: Ipv6Addr) -> bool {
    let parts = v6.segments();
    // An IPv6 address that embeds an IPv4 address (64:ff9b::/96 and 2002::/16) is public if the
    // IPv4 address is.
    let [.., high, low] = parts;
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_global_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Addresses for documentation, and protocols such as Teredo, whose addresses embed another
        // address.
        [0x2001, 0xdb8 | 0..0x200, ..] | [0x3fff, 0..0x1000, ..] => false,
        // The global unicast addresses assigned so far.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

/// DNS resolver that returns only allowed addresses. The client connects to exactly these: if it
/// resolved the name again after a check, the second answer could differ (DNS rebinding).
#[derive(Debug)]
struct Vetted(Private);

impl Resolve for Vetted {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.0;
        Box::pin(async move {
            let resolved = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = resolved.filter(|it| private.allows(it.ip())).collect();
            if allowed.is_empty() {
                return Err(refused(name.as_str()).into());
            }
            let addresses: Addrs = Box::new(allowed.into_iter());
            Ok(addresses)
        })
    }
}

fn refused(host: &str) -> String {
    format!("`{host}` is a private network address; see the setting `allowPrivate`")
}

/// HTTP client that calls URLs, with the settings of calls.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    client: Client,
    /// Client that keeps no connections.
    fresh: Client,
    private: Private,
    /// Maximum time without a byte of the response, unless the definition has its own
    /// `callTimeoutMs`.
    silence: Duration,
    secrets: Arc<[Secret]>,
    /// The gate that a response 429 or 503 closes.
    on_too_many: Option<OnTooMany>,
}

/// Timeout for connecting. It is part of the timeout of the call.
const CONNECT: Duration = Duration::from_secs(10);

/// Time after which an unused connection is closed. Services close theirs, too, Node.js after five
/// seconds: a call that is sent on a connection at that moment fails.
const IDLE: Duration = Duration::from_secs(4);

/// Interval at which a silent connection is probed, so that a call notices early that the machine of
/// its service is gone.
const PROBE: Duration = Duration::from_secs(15);

impl Calls {
    pub(crate) fn new(
        private: Private,
        silence: Duration,
        secrets: Vec<Secret>,
    ) -> anyhow::Result<Self> {
        let client = || {
            Client::builder()
                .dns_resolver(Arc::new(Vetted(private)))
                .redirect(redirect::Policy::none())
                .no_proxy()
                .connect_timeout(CONNECT)
                .pool_idle_timeout(IDLE)
                .tcp_keepalive(PROBE)
                .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        };
        let fresh = client().pool_max_idle_per_host(0).build()?;
        let (client, secrets) = (client().build()?, secrets.into());
        Ok(Self { client, fresh, private, silence, secrets, on_too_many: None })
    }

    /// Returns the handler of a definition that has a `url`.
    pub(crate) fn handler_resolver(&self, definition: &Definition) -> Option<Arc<dyn Handler>> {
        let (mut calls, url) = (self.clone(), definition.url.clone()?);
        if let Some(ms) = definition.call_timeout_ms {
            calls.silence = Duration::from_millis(ms);
        }
        calls.on_too_many.clone_from(&definition.on_too_many);
        let on_failure = match &definition.on_failure {
            OnFailure::Call { url } => Some(url.clone()),
            OnFailure::Nobody | OnFailure::Code => None,
        };
        Some(Arc::new(Call { calls, url, on_failure }))
    }
}

/// Handler that calls the URL of one definition, and another URL if a run has failed.
#[derive(Clone)]
struct Call {
    calls: Calls,
    url: String,
    on_failure: Option<String>,
}

impl Handler for Call {
    fn call(&self, ctx: Ctx) -> std::pin::Pin<Box<dyn Future<Output = Result<Payload>> + Send>> {
        let call = self.clone();
        Box::pin(async move {
            let (calls, url, of) = (&call.calls, call.url_for(&ctx)?, &ctx);
            let settled = Mutex::new(Vec::new());
            let into = &settled;
            let call = || async move { calls.post(of, url, body_of(of).await?, into).await };
            let answer: Box<RawValue> = ctx.step(STEP, call).await?;
            // Recorded in the report of the step and of the run's end.
            for (pool, units) in settled.into_inner().unwrap_or_default() {
                if let Err(error) = ctx.settle(&pool, units).await {
                    let run = ctx.run_id().to_string();
                    tracing::warn!(run, pool, %error, "settlement in the response ignored");
                }
            }
            Ok(Payload::parse(answer.get().as_bytes(), MAX_VALUE_BYTES)?)
        })
    }
}

impl Call {
    /// Returns the URL to call for a run. A failure handler of a definition with `onFailure: true`
    /// has no URL, which is an error: the workflow's own URL would do the failed work again.
    fn url_for(&self, ctx: &Ctx) -> Result<&str> {
        if ctx.failure_of().is_none() {
            return Ok(&self.url);
        }
        self.on_failure.as_deref().ok_or_else(|| {
            let message = format!(
                "workflow `{}`: onFailure is true beside `url`, which calls nothing: write \
                 `{{\"url\": \"https://…\"}}`",
                ctx.workflow()
            );
            StepError::coded("NoFailureHandler", message).fatal()
        })
    }
}

/// Returns the body of a call: the event's data, the list of data of a batch, a request with the
/// current state of its session, or the failure to handle.
async fn body_of(ctx: &Ctx) -> Result<String> {
    if let Some(run) = ctx.failure_of() {
        // If the handler is retried manually, the failed run may already be deleted.
        let error = ctx.failure().await?.map(
            |(_, error)| serde_json::json!({ "code": error.code(), "message": error.message() }),
        );
        let (error, input) = (serde_json::to_string(&error)?, ctx.input());
        return Ok(format!(r#"{{"error":{error},"input":{input},"run":"{run}"}}"#));
    }
    if !ctx.is_action() {
        return Ok(ctx.input());
    }
    let request = &ctx.event().data;
    let Ok(session) = ctx.session() else { return Ok(request.as_str().to_owned()) };
    let (version, state) = session.current().await?;
    let id = serde_json::to_string(session.id())?;
    let part = |name: &str| request.select(&[name.to_owned()]).unwrap_or("null");
    Ok(format!(
        r#"{{"input":{},"session":{{"id":{id},"version":{version},"state":{}}},"user":{},"metadata":{}}}"#,
        part("input"),
        state.as_str(),
        part("user"),
        part("metadata"),
    ))
}

impl Calls {
    /// Makes one call.
    ///
    /// The units in the header `tidegate-settle` of a successful response are added to `settled`.
    async fn post(
        &self,
        ctx: &Ctx,
        url: &str,
        body: String,
        settled: &Mutex<Vec<(String, u32)>>,
    ) -> Result<Box<RawValue>> {
        let url = self.vetted(url)?;
        let id = ctx.idempotency_key(STEP);
        let mut request = self.client.post(url);
        if !self.secrets.is_empty() {
            // The signature has the time of this attempt, because the service may reject old
            // signatures.
            let at = SystemClock.now().micros() / 1_000_000;
            request = request
                .header("webhook-id", &id)
                .header("webhook-timestamp", at)
                .header("webhook-signature", sign::standard(&self.secrets, &id, at, &body));
        }
        if let Some(run) = ctx.failure_of() {
            request = request.header("tidegate-failure-of", run.to_string());
        }
        let request = request
            .body(body)
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", id)
            .header("tidegate-run", ctx.run_id().to_string())
            .header("tidegate-workflow", name_in_header(ctx.workflow())?)
            .header("tidegate-version", ctx.version())
            .header("tidegate-attempt", ctx.attempt(STEP));
        let response = heard(self.silence, request.send()).await?;
        let answer = Answer { response, silence: self.silence };
        if answer.response.status().is_success() {
            *settled.lock().expect("nothing panics under this lock") =
                settlements(&answer.response);
        }
        if answer.response.status().is_success() && relay::is_stream(&answer.response) {
            return relay::relay(ctx, answer).await;
        }
        let is_refused = refuses_calls(&answer.response);
        let until = too_many(&answer.response);
        let read = read(answer).await;
        // The service that handles failures is another one.
        let is_overload = is_refused && ctx.failure_of().is_none();
        let read = read.map_err(|fault| if is_overload { fault.overload() } else { fault });
        match (&self.on_too_many, until) {
            (Some(on), Some(until)) if ctx.failure_of().is_none() => read.map_err(|fault| {
                let most = Duration::from_millis(on.max_close_ms);
                fault.close_gate_for_most(on.close.clone(), until, most)
            }),
            _ => read,
        }
    }
}

/// Request of a protocol whose responses are read as a whole.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Maximum time without a byte of the response.
    pub(crate) silence: Duration,
    /// Maximum size of the response's body.
    pub(crate) max_bytes: usize,
    /// Whether the request may be executed twice: it is [sent once more](resend::send) if its
    /// connection ends before the response.
    pub(crate) repeats: bool,
}

/// Response of an [`Exchange`].
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Calls {
    /// Parses a URL and checks that it has no forbidden IP address. The resolver checks host names.
    pub(crate) fn vetted(&self, url: &str) -> Result<Url> {
        let url = Url::parse(url).map_err(|error| StepError::from(error).fatal())?;
        match address(&url) {
            Some(address) if !self.private.allows(address) => {
                let message = refused(&address.to_string());
                Err(StepError::coded("PrivateAddress", message).fatal())
            }
            Some(_) | None => Ok(url),
        }
    }

    /// Sends a request to a [vetted](Self::vetted) URL, and returns the response, whatever its
    /// status is.
    pub(crate) async fn exchange(&self, exchange: Exchange) -> Result<Exchanged> {
        let Exchange { method, url, headers, body, silence, max_bytes, repeats } = exchange;
        let request = self.client.request(method, url).headers(headers).body(body);
        let request = request.build().map_err(failed)?;
        let sent = resend::send(&self.client, &self.fresh, request, repeats);
        let mut response = heard(silence, sent).await?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = body_of_at_most(max_bytes, Answer { response, silence }).await?;
        Ok(Exchanged { status, headers, body })
    }
}

/// Returns how long the service refuses calls, if it says so in a response 429 or 503.
fn too_many(response: &Response) -> Option<Duration> {
    refuses_calls(response).then(|| asked_delay(response.headers(), SystemClock.now()))?
}

/// Whether the response says that the service has too many calls.
fn refuses_calls(response: &Response) -> bool {
    [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&response.status())
}

/// Returns the delay in the header `Retry-After`.
pub(crate) fn asked_delay(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, now)
}

/// Name of the response header with the units that a run has really taken of pools:
/// `openai=812, search=3`.
const SETTLE: &str = "tidegate-settle";

/// Parses the settlements of a response. Parts that are not `pool=units` are logged and left out.
fn settlements(response: &Response) -> Vec<(String, u32)> {
    let headers = response.headers().get_all(SETTLE).into_iter();
    let texts = headers.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    let parsed = texts.filter_map(|part| {
        let read = part
            .trim()
            .rsplit_once('=')
            .and_then(|(pool, units)| Some((pool.trim().to_owned(), units.trim().parse().ok()?)));
        if read.is_none() {
            tracing::warn!(part, "bad part of the response header `tidegate-settle` ignored");
        }
        read
    });
    parsed.collect()
}

/// Returns a name as a header value, unchanged in UTF-8, also if it is not ASCII.
fn name_in_header(name: &str) -> Result<HeaderValue> {
    HeaderValue::from_bytes(name.as_bytes()).map_err(|error| StepError::from(error).fatal())
}

/// A response whose headers have arrived; its body is read in parts.
struct Answer {
    response: Response,
    silence: Duration,
}

impl Answer {
    /// Returns the next part of the body, or `None` at its end.
    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        heard(self.silence, self.response.chunk()).await
    }
}

/// Waits for the next part of a response, within the timeout. There is no timeout for the whole
/// response: a streamed one may take any time, and after an abort the service would have to start
/// again.
async fn heard<T>(silence: Duration, part: impl Future<Output = reqwest::Result<T>>) -> Result<T> {
    match tokio::time::timeout(silence, part).await {
        Ok(part) => part.map_err(failed),
        Err(_) => {
            let ms = silence.as_millis();
            let message = format!("the service sent nothing for {ms} ms; see `callTimeoutMs`");
            Err(StepError::coded("CallTimedOut", message).overload())
        }
    }
}

fn failed(error: reqwest::Error) -> StepError {
    // The error text must not have the URL, which may contain a secret.
    let error = error.without_url();
    StepError::coded("CallFailed", format!("{:#}", anyhow::Error::from(error)))
}

/// Returns the result of a call that is not streamed.
async fn read(answer: Answer) -> Result<Box<RawValue>> {
    let response = &answer.response;
    let status = response.status();
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default();
        kind.starts_with("application/json") || kind.contains("+json")
    });
    let again = asked_delay(response.headers(), SystemClock.now());
    if status.is_success() {
        return value(&body(answer).await?, json);
    }
    let start = body(answer).await.unwrap_or_default();
    let start: String = String::from_utf8_lossy(&start).chars().take(200).collect();
    let colon = if start.is_empty() { "" } else { ": " };
    let message = format!("the service responded with {status}{colon}{start}");
    let fault = StepError::coded("CallRefused", message);
    let temporary =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    match again {
        _ if !(status.is_server_error() || temporary.contains(&status)) => Err(fault.fatal()),
        Some(time) => Err(fault.retry_after(time)),
        None => Err(fault),
    }
}

/// Maximum of `Retry-After`: a day. A service that sends more has a wrong clock or unit, and the
/// run would wait for years.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses `Retry-After`: seconds, an HTTP date, or a date of RFC 3339, which Inngest's SDKs send.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let time = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs)
    } else {
        match Timestamp::parse_rfc3339(text) {
            Some(at) => Duration::from_millis(now.ms_until(at)),
            None => {
                let now = UNIX_EPOCH + Duration::from_micros(u64::try_from(now.micros()).ok()?);
                let at = httpdate::parse_http_date(text).ok()?;
                at.duration_since(now).unwrap_or_default()
            }
        }
    };
    Some(time.min(MAX_RETRY_AFTER))
}

/// Timeout for the whole body of a response that is not streamed. Single bytes that arrive in time
/// do not extend it, because the body is not used before its end.
const LONGEST_BODY: Duration = Duration::from_millis(MAX_CALL_TIMEOUT_MS);

/// Reads the whole body, within the limits of size and time.
async fn body(answer: Answer) -> Result<Vec<u8>> {
    body_of_at_most(MAX_VALUE_BYTES, answer).await
}

async fn body_of_at_most(max_bytes: usize, answer: Answer) -> Result<Vec<u8>> {
    let parts = all_parts(max_bytes, answer);
    tokio::time::timeout(LONGEST_BODY, parts).await.unwrap_or_else(|_| {
        let minutes = LONGEST_BODY.as_secs() / 60;
        let message = format!("the response did not end within {minutes} minutes");
        Err(StepError::coded("CallTimedOut", message).overload())
    })
}

async fn all_parts(max_bytes: usize, mut answer: Answer) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > max_bytes {
            let message = format!("the response has more than {max_bytes} bytes");
            return Err(StepError::coded("AnswerTooLarge", message).fatal());
        }
    }
    Ok(bytes)
}

/// Converts a body to a run's output: JSON unchanged, other text as a string, an empty body as
/// null.
fn value(body: &[u8], json: bool) -> Result<Box<RawValue>> {
    if body.is_empty() {
        return Ok(RawValue::NULL.to_owned());
    }
    if json {
        let read = serde_json::from_slice(body);
        return read.map_err(|error| StepError::coded("BadAnswer", error.to_string()).fatal());
    }
    let text = serde_json::to_string(&String::from_utf8_lossy(body))?;
    Ok(RawValue::from_string(text)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::time::Timestamp;

    use super::{MAX_RETRY_AFTER, Private, address, is_global, retry_after};

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_a_day() {
        let now = Timestamp::parse_rfc3339("1994-11-06T08:49:37Z").unwrap();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (text, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            ("86401", Some(MAX_RETRY_AFTER)),
            ("99999999999999999999999", Some(MAX_RETRY_AFTER)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", seconds(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", seconds(60)),
            ("Sun Nov  6 08:50:37 1994", seconds(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", seconds(0)),
            ("Thu, 06 Nov 2194 08:00:00 GMT", Some(MAX_RETRY_AFTER)),
            ("1994-11-06T08:50:37.000Z", seconds(60)),
            ("1994-11-06T08:00:00Z", seconds(0)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_private_networks_are_known_in_every_spelling() {
        let private = "127.0.0.1 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 \
            192.0.0.8 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 192.0.2.1 ::1 :: fe80::1 fc00::1 \
            ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: 2001:db8::1 2001::1 \
            4000::1 192.88.99.1 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b:1::1 2001:2::1 2001:20::1 3fff::1 \
            fec0::1 100::1 5f00::1";
        for address in private.split_whitespace() {
            assert!(!is_global(address.parse().unwrap()), "{address}");
        }
        let global = "1.1.1.1 8.8.8.8 100.128.0.1 2606:4700::1 64:ff9b::808:808 ::ffff:8.8.8.8";
        for address in global.split_whitespace() {
            assert!(is_global(address.parse().unwrap()), "{address}");
        }
    }

    /// A definition may spell a private address in any of these ways; all of them are refused.
    #[test]
    fn no_spelling_hides_a_private_address() {
        let private = "http://127.0.0.1/ http://127.1/ http://2130706433/ http://0x7f000001/ \
            http://0177.0.0.1/ http://0x7f.0.0.1/ http://127.0.0.1./ http://me:secret@127.0.0.1/ \
            http://example.com@10.0.0.1/ http://0/ http://0.0.0.0:80/ http://[::1]/ http://[::]/ \
            http://[::ffff:7f00:1]/ http://[::ffff:127.0.0.1]/ http://[64:ff9b::a00:1]/ \
            http://169.254.169.254/latest http://[fe80::1]/ http://100.64.0.1/ http://%31%32%37.0.0.1/ \
            http://①②⑦.0.0.1/ http://192.168.257/ http://3232235777/ http://[2002:a00:1::]/";
        for text in private.split_whitespace() {
            let url = text.parse().unwrap();
            let resolved = address(&url)
                .unwrap_or_else(|| panic!("{text}: the host must be read as an IP address"));
            assert!(!Private::None.allows(resolved), "{text} must be refused, it is {resolved}");
        }
        for text in ["http://localhost/", "http://127.0.0.1.example/", "http://a.example/"] {
            assert_eq!(
                address(&text.parse().unwrap()),
                None,
                "{text} is checked when it is resolved"
            );
        }
        let public = "http://8.8.8.8/ http://134744072/ http://[2606:4700::1]/";
        for text in public.split_whitespace() {
            assert!(Private::None.allows(address(&text.parse().unwrap()).unwrap()), "{text}");
        }
    }

    #[test]
    fn loopback_is_allowed_by_itself() {
        let loopback = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"];
        for address in loopback.map(|it| it.parse().unwrap()) {
            assert!(!Private::None.allows(address));
            assert!(Private::Loopback.allows(address));
        }
        assert!(!Private::Loopback.allows("10.0.0.1".parse().unwrap()));
        assert!(Private::All.allows("10.0.0.1".parse().unwrap()));
    }
}
