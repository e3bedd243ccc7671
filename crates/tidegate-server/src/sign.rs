//! HMAC signatures of messages between services. The server signs its calls and checks webhooks.

use std::fmt;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A shared secret. Its `Debug` output does not reveal it.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Secret {
    /// Reads secrets, separated by commas; several are allowed, so that a secret can be rotated. A
    /// secret is `whsec_` and base64, as in Standard Webhooks, or any other text, which is used
    /// unchanged.
    pub(crate) fn read_all(text: &str) -> anyhow::Result<Vec<Self>> {
        parts(text).map(Self::read).collect()
    }

    /// Reads secrets, separated by commas, and uses each unchanged. Only Standard Webhooks decodes
    /// secrets; Stripe does not, although its secrets begin with `whsec_`, too.
    pub(crate) fn read_plain(text: &str) -> Vec<Self> {
        parts(text).map(Self::plain).collect()
    }

    fn read(text: &str) -> anyhow::Result<Self> {
        let Some(coded) = text.strip_prefix("whsec_") else {
            return Ok(Self::plain(text));
        };
        // Some senders write the padding of base64, others omit it.
        let bytes = STANDARD_NO_PAD.decode(coded.trim_end_matches('='));
        Ok(Self(bytes.map_err(|_| anyhow::anyhow!("a secret after `whsec_` must be base64"))?))
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts a key of any length");
        for part in parts {
            mac.update(part);
        }
        mac
    }

    /// Creates a secret whose bytes are those of the text.
    pub(crate) fn plain(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// Returns the signature of the parts.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> Vec<u8> {
        self.mac(parts).finalize().into_bytes().to_vec()
    }

    /// Whether the signature of the parts was made with this secret. The comparison takes constant
    /// time.
    pub(crate) fn has_signed(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        self.mac(parts).verify_slice(signature).is_ok()
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the header `webhook-signature` of Standard Webhooks: one signature for each secret.
pub(crate) fn standard(secrets: &[Secret], id: &str, seconds: i64, body: &str) -> String {
    let at = seconds.to_string();
    let parts = [id.as_bytes(), b".", at.as_bytes(), b".", body.as_bytes()];
    let signatures =
        secrets.iter().map(|secret| format!("v1,{}", STANDARD.encode(secret.sign(&parts))));
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Secret, standard};

    /// Checks the example of the Standard Webhooks specification.
    #[test]
    fn a_message_is_signed_as_others_do_it() {
        let secrets = Secret::read_all("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = standard(
            &secrets,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn there_is_a_signature_for_each_secret_and_none_is_shown() {
        let secrets = Secret::read_all("one, two,").unwrap();
        assert_eq!(standard(&secrets, "a", 0, "b").split(' ').count(), 2);
        assert_eq!(format!("{secrets:?}"), "[Secret(***), Secret(***)]");
        let error = Secret::read_all("whsec_!").unwrap_err().to_string();
        assert_eq!(error, "a secret after `whsec_` must be base64");
    }

    #[test]
    fn one_changed_byte_is_another_message() {
        let secret = &Secret::read_all("s").unwrap()[0];
        let signature = secret.sign(&[b"ab"]);
        assert!(secret.has_signed(&[b"a", b"b"], &signature));
        assert!(!secret.has_signed(&[b"a", b"c"], &signature));
        assert!(!secret.has_signed(&[b"ab"], &signature[1..]));
    }
}
