//! The web console: embedded files, and their content security policy. It allows the page to load
//! only these files and to call only this server.
//!
//! In a debug build the files are read from the source tree, so that a reload shows a change.

use std::borrow::Cow;

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rust_embed::{EmbeddedFile, RustEmbed};
use sha2::{Digest, Sha256};

use super::{App, body::At, problem::Problem};

#[derive(RustEmbed)]
#[folder = "console/"]
struct Files;

/// The HTML page, which loads all other files.
const PAGE: &str = "index.html";

/// Returns the routes of the console. They are not part of the API and need no API key, because the
/// files contain no data.
pub(super) fn routes() -> Router<App> {
    Router::new().route("/", get(page)).route("/console/{*path}", get(file))
}

async fn page(headers: HeaderMap) -> Result<Response, Problem> {
    let file = embedded(PAGE)?;
    let policy = policy(&String::from_utf8_lossy(&file.data));
    let mut response = answer(PAGE, file, &headers);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

async fn file(headers: HeaderMap, At(path): At<String>) -> Result<Response, Problem> {
    Ok(answer(&path, embedded(&path)?, &headers))
}

fn embedded(path: &str) -> Result<EmbeddedFile, Problem> {
    let nothing = || Problem::not_found("no_route", format!("the console has no file `{path}`"));
    Files::get(path).ok_or_else(nothing)
}

/// Returns the response with a file, or 304 if the browser has the same file.
fn answer(path: &str, file: EmbeddedFile, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", BASE64_STANDARD.encode(file.metadata.sha256_hash()));
    let about = [
        (header::CONTENT_TYPE, kind(path).to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::ETAG, tag.clone()),
    ];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    let data = match file.data {
        Cow::Borrowed(data) => data.into(),
        Cow::Owned(data) => axum::body::Bytes::from(data),
    };
    (about, data).into_response()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// Returns the content security policy: only files of this server, and the one import map of the
/// page, which is allowed by its hash.
fn policy(page: &str) -> String {
    let inline = page.split_once("<script type=\"importmap\">");
    let inline = inline.and_then(|(_, rest)| rest.split_once("</script>"));
    let hash = BASE64_STANDARD.encode(Sha256::digest(inline.unwrap_or_default().0));
    format!(
        "default-src 'none'; script-src 'self' 'sha256-{hash}'; style-src 'self'; \
         img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use sha2::{Digest, Sha256};

    use super::Files;

    #[derive(Deserialize)]
    struct Vendored {
        file: Vec<Original>,
    }

    #[derive(Deserialize)]
    struct Original {
        name: String,
        sha256: String,
    }

    #[test]
    fn what_others_wrote_is_as_they_shipped_it() {
        let list = Files::get("vendor/vendor.toml").unwrap().data;
        let list: Vendored = toml::from_str(std::str::from_utf8(&list).unwrap()).unwrap();
        let mut names: Vec<_> =
            Files::iter().filter(|it| it.starts_with("vendor/") && it.ends_with(".mjs")).collect();
        for Original { name, sha256 } in list.file {
            let path = format!("vendor/{name}");
            let hash = Sha256::digest(Files::get(&path).unwrap().data);
            let hash = axum::body::Bytes::copy_from_slice(&hash);
            assert_eq!(format!("{hash:x}"), sha256, "the hash of {path} differs from vendor.toml");
            names.retain(|it| *it != path);
        }
        assert!(names.is_empty(), "files that vendor.toml does not list: {names:?}");
    }
}
