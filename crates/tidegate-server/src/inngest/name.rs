//! Names of steps. An SDK names a step by the SHA-1 of the id in the user's code; the engine names it
//! by that id itself, which `why`, the console and the command line show.
//!
//! Neither is stored beside the other: the one is the digest of the other. If an SDK does not send
//! the user's id, the engine's step has the digest as its name.

use sha1_smol::Sha1;

/// Maximum length of a name, in bytes. The engine's own limit is in characters.
const MAX_NAME_BYTES: usize = 200;

/// Prefixes of names that the engine gives a meaning.
const RESERVED: [&str; 2] = ["patch:", "session:"];

/// Returns the engine's name of a step: the user's id if the SDK's id is its digest, otherwise the
/// SDK's id. Repeated ids have an index.
pub(super) fn step_name(id: &str, own: Option<&str>, index: Option<u32>) -> String {
    let name = match (own, index) {
        (None, _) => return id.to_owned(),
        (Some(own), Some(index)) if index > 0 => format!("{own}:{index}"),
        (Some(own), _) => own.to_owned(),
    };
    if is_name(&name) && digest(&name) == id { name } else { id.to_owned() }
}

/// Returns the SDK's id of a step.
pub(super) fn step_id(name: &str) -> String {
    if is_digest(name) { name.to_owned() } else { digest(name) }
}

fn digest(name: &str) -> String {
    Sha1::from(name).digest().to_string()
}

/// Whether a text can only be an id: 40 hexadecimal digits.
fn is_digest(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the engine accepts a user's id as a name, and cannot take it for a digest.
fn is_name(text: &str) -> bool {
    let reserved = RESERVED.iter().any(|prefix| text.starts_with(prefix));
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text.contains('\0')
        && !reserved
        && !is_digest(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_name_that_its_user_gave_it() {
        let one = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106";
        let second = "c1023fa587daa4753ff5868c7e4bdbd03defda7d";
        let long = "x".repeat(201);
        let hash_like = "a".repeat(40);
        for (id, own, index, expected) in [
            (one, Some("one"), None, "one"),
            (one, Some("one"), Some(0), "one"),
            (second, Some("same"), Some(1), "same:1"),
            // The text is shown to users, and is not the step's id.
            (one, Some("First step"), None, one),
            (second, Some("same"), None, second),
            (one, None, None, one),
            (&digest(&long), Some(long.as_str()), None, digest(&long).as_str()),
            (&digest("patch:x"), Some("patch:x"), None, digest("patch:x").as_str()),
            (&digest(&hash_like), Some(hash_like.as_str()), None, digest(&hash_like).as_str()),
        ] {
            let name = step_name(id, own, index);
            assert_eq!(name, expected);
            assert_eq!(step_id(&name), id, "the name `{name}` must give the id again");
        }
    }
}
