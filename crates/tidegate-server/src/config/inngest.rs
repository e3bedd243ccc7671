//! The section `[inngest]`: keys of SDKs, and apps to sync.

use super::Setting;

/// The settings of the section.
pub(super) const SETTINGS: [Setting; 5] = [
    Setting {
        name: "inngest.apps",
        default: "",
        what: "apps that the server syncs: http://host/api/inngest, or ENVIRONMENT=URL",
    },
    Setting {
        name: "inngest.listen",
        default: "",
        what: "second address and port, for SDKs that expect 127.0.0.1:8288",
    },
    Setting {
        name: "inngest.signingKeyEnv",
        default: "INNGEST_SIGNING_KEY",
        what: "environment variable with the signing key of the apps",
    },
    Setting {
        name: "inngest.fallbackKeyEnv",
        default: "INNGEST_SIGNING_KEY_FALLBACK",
        what: "environment variable with a further signing key that is accepted",
    },
    Setting {
        name: "inngest.eventKeyEnv",
        default: "INNGEST_EVENT_KEY",
        what: "environment variable with the keys for sending events",
    },
];
