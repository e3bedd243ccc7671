//! Keys of Inngest's SDKs: signing keys, by which server and applications know each other, and event
//! keys, with which programs post events.
//!
//! Without keys the server is in development mode, for applications on the same machine.

use std::fmt;

use anyhow::{Context, bail};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use super::canonical::canonical;
use crate::sign::Secret;

/// Header of a signature.
pub(crate) const SIGNATURE: &str = "x-inngest-signature";

/// Maximum age of a signature, and how far its time may be ahead.
const MAX_AGE_S: i64 = 5 * 60;

/// All keys of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// The first key signs; all of them are accepted, so that keys can be changed.
    signing: Vec<SigningKey>,
    events: Vec<EventKey>,
}

#[derive(Clone)]
struct SigningKey {
    secret: Secret,
    /// The digest that callers send instead of the key.
    digest: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

#[derive(Clone)]
struct EventKey(String);

impl fmt::Debug for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventKey(***)")
    }
}

impl SigningKey {
    /// Reads `signkey-ENV-HEX`, or the hexadecimal part alone.
    fn read(text: &str) -> anyhow::Result<Self> {
        let hex = text.rsplit_once('-').map_or(text, |(_, hex)| hex);
        let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
        let bytes = bytes.ok().filter(|bytes| !bytes.is_empty());
        let bytes = bytes.context("a signing key must be `signkey-ENV-` and hexadecimal digits")?;
        let secret = Secret::plain(hex);
        Ok(Self { secret, digest: HEXLOWER.encode(&Sha256::digest(bytes)) })
    }
}

impl Keys {
    /// Reads the keys; each text may have several, separated by commas.
    pub(crate) fn read(signing: &str, fallback: &str, events: &str) -> anyhow::Result<Self> {
        let parts = |text: &str| -> Vec<String> {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        if parts(signing).is_empty() && !(parts(fallback).is_empty() && parts(events).is_empty()) {
            bail!("there are event keys or fallback keys, but no signing key: set all or none");
        }
        let signing = parts(signing).into_iter().chain(parts(fallback));
        let signing = signing.map(|key| SigningKey::read(&key)).collect::<Result<_, _>>()?;
        Ok(Self { signing, events: parts(events).into_iter().map(EventKey).collect() })
    }

    /// Whether callers must prove that they have a key.
    pub(crate) fn are_required(&self) -> bool {
        !self.signing.is_empty()
    }

    /// Returns the kind of server that the SDKs are told.
    pub(crate) fn kind(&self) -> &'static str {
        if self.are_required() { "cloud" } else { "dev" }
    }

    /// Returns the signature of a JSON document or of an empty body; none in development mode.
    pub(crate) fn sign(&self, body: &[u8], now_s: i64) -> Result<Option<String>, String> {
        let Some(key) = self.signing.first() else { return Ok(None) };
        let signed = signed(body)?;
        let mac = key.secret.sign(&[&signed, now_s.to_string().as_bytes()]);
        Ok(Some(format!("t={now_s}&s={}", HEXLOWER.encode(&mac))))
    }

    /// Checks the signature of a JSON document that an application has sent. The SDKs sign their
    /// answers as they are, and canonical JSON is accepted, too. In development mode no signature is
    /// needed.
    pub(crate) fn verify(&self, header: &str, body: &[u8], now_s: i64) -> Result<(), String> {
        if !self.are_required() {
            return Ok(());
        }
        let field = |name: &str| {
            let mut fields = header.split('&').filter_map(|part| part.split_once('='));
            fields.find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let (at, given) = (field("t"), field("s"));
        let at = at.and_then(|text| Some((text, text.parse::<i64>().ok()?)));
        let given = given.and_then(|hex| HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok());
        let (Some((text, at)), Some(given)) = (at, given) else {
            return Err("the signature must be like `t=1700000000&s=0123abcd…`".to_owned());
        };
        if at.saturating_sub(now_s).saturating_abs() > MAX_AGE_S {
            return Err(format!("the signature is more than {MAX_AGE_S} s old or ahead"));
        }
        let has_signed = |body: &[u8]| {
            let parts = [body, text.as_bytes()];
            self.signing.iter().any(|key| key.secret.has_signed(&parts, &given))
        };
        if has_signed(body) || has_signed(&signed(body)?) {
            return Ok(());
        }
        Err("the signature was not made with a signing key of this server".to_owned())
    }

    /// Whether a caller has a signing key: it sends the digest of the key, with the key's prefix
    /// or without.
    pub(crate) fn admit_bearer(&self, given: &str) -> bool {
        let digest = given.rsplit_once('-').map_or(given, |(_, digest)| digest);
        self.signing.iter().any(|key| is_same(&key.digest, digest))
    }

    /// Whether a caller sends a signing key itself.
    pub(crate) fn admit_signing_key(&self, given: &str) -> bool {
        SigningKey::read(given).is_ok_and(|key| self.admit_bearer(&key.digest))
    }

    /// Whether a caller has an event key.
    pub(crate) fn admit_event_key(&self, given: &str) -> bool {
        self.events.iter().any(|EventKey(key)| is_same(key, given))
    }
}

/// Compares two texts in constant time.
fn is_same(own: &str, given: &str) -> bool {
    own.as_bytes().ct_eq(given.as_bytes()).into()
}

/// Returns the bytes of a body that are signed.
fn signed(body: &[u8]) -> Result<Vec<u8>, String> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    canonical(body).map_err(|error| format!("only JSON can be signed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{HEXLOWER, Keys, Secret};

    const KEY: &str = "signkey-prod-12345678";
    const OTHER: &str = "signkey-test-abcdef01";

    fn keys(signing: &str, fallback: &str) -> Keys {
        Keys::read(signing, fallback, "event-key").unwrap()
    }

    /// The values were computed with Python's hmac and hashlib.
    #[test]
    fn a_message_is_signed_as_the_sdks_do_it() {
        let keys = keys(KEY, "");
        let signature = keys.sign(br#"{ "b": 1.0, "a": [] }"#, 1_700_000_000).unwrap().unwrap();
        assert_eq!(signature, SIGNED);
        let empty = keys.sign(b"", 1_700_000_000).unwrap().unwrap();
        assert_eq!(empty, SIGNED_EMPTY);
        assert!(keys.admit_bearer(DIGEST));
        assert!(keys.admit_bearer(&format!("signkey-prod-{DIGEST}")));
        assert!(!keys.admit_bearer(KEY), "the digest is sent, not the key");
        assert!(keys.admit_signing_key(KEY) && !keys.admit_signing_key(OTHER));
        assert!(!keys.admit_signing_key(DIGEST) && !keys.admit_signing_key(""));
        assert!(!keys.admit_bearer("") && !keys.admit_bearer("undefined"));
    }

    const SIGNED: &str =
        "t=1700000000&s=d98d3ce495ccc548243a46023372c1888acdfe006ee828f0e8bb99e354722183";
    const SIGNED_EMPTY: &str =
        "t=1700000000&s=189656184e486419febc1f6fd73e1c45bc8595c99633a32ebe1ea40ac8adf630";
    const DIGEST: &str = "b2ed992186a5cb19f6668aade821f502c1d00970dfd0e35128d51bac4649916c";

    #[test]
    fn a_fallback_key_is_accepted_and_does_not_sign() {
        let (old, both, new) = (keys(KEY, ""), keys(OTHER, KEY), keys(OTHER, ""));
        let body = br#"{"a":1}"#;
        let of = |keys: &Keys| keys.sign(body, 1000).unwrap().unwrap();
        assert_eq!(of(&both), of(&new));
        assert_eq!(both.verify(&of(&old), body, 1000), Ok(()));
        assert_eq!(both.verify(&of(&new), body, 1000), Ok(()));
        assert!(new.verify(&of(&old), body, 1000).unwrap_err().contains("not made with"));
    }

    #[test]
    fn a_signature_must_fit_to_body_and_time() {
        let keys = keys(KEY, "");
        let signature = keys.sign(br#"{"a":1}"#, 1000).unwrap().unwrap();
        let check = |body: &str, now| keys.verify(&signature, body.as_bytes(), now);
        assert_eq!(check(r#"{ "a": 1.0 }"#, 1300), Ok(()));
        assert_eq!(check(r#"{"a":1}"#, 700), Ok(()));
        assert!(check(r#"{"a":1}"#, 1301).unwrap_err().contains("300 s old"));
        assert!(check(r#"{"a":1}"#, 699).unwrap_err().contains("ahead"));
        assert!(check(r#"{"a":2}"#, 1000).unwrap_err().contains("not made with"));
        let raw = Secret::plain("12345678").sign(&[br#"{ "a": 1.0 }"#, b"1000"]);
        let raw = format!("t=1000&s={}", HEXLOWER.encode(&raw));
        assert_eq!(keys.verify(&raw, br#"{ "a": 1.0 }"#, 1000), Ok(()));
        assert!(keys.verify(&raw, br#"{"a":1}"#, 1000).is_err());
        for header in ["", "t=1000", "s=00", "t=x&s=00", "t=1000&s=xy", "s=00&t=1000"] {
            assert!(keys.verify(header, b"{}", 1000).is_err(), "{header}");
        }
    }

    #[test]
    fn without_keys_nothing_is_signed_and_nothing_shown() {
        let none = Keys::read("", "", "").unwrap();
        assert_eq!((none.kind(), none.sign(b"{}", 0)), ("dev", Ok(None)));
        assert_eq!(none.verify("", b"", 0), Ok(()));
        assert!(!none.admit_bearer("") && !none.admit_event_key(""));
        let some = keys(&format!("{KEY}, {OTHER}"), "");
        assert!(some.admit_event_key("event-key") && !some.admit_event_key("event-kex"));
        let shown = format!("{some:?}");
        assert!(!shown.contains("1234") && !shown.contains("event-key"), "{shown}");
        for (signing, fallback, events) in
            [("signkey-prod-xyz", "", ""), ("", KEY, ""), ("", "", "a"), ("signkey-prod-", "", "")]
        {
            assert!(Keys::read(signing, fallback, events).is_err(), "{signing}");
        }
    }
}
