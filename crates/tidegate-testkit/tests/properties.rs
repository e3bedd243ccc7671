//! Small random worlds, compared operation by operation with the reference.
//!
//! Each case draws which controls are on, short times and few keys, and a list of operations.
//! After each one the answers, the states, the holders, the lines and the ready runs must be the
//! same on both sides. A failure prints the smallest such case, and its seed is kept in
//! `properties.proptest-regressions`, which every later run repeats first.

mod worlds;

use proptest::{prelude::*, test_runner::FileFailurePersistence};

use worlds::{case, check};

/// As many as fit into about twenty seconds; more with `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let more = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: more.unwrap_or(500),
        max_shrink_iters: 20_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_core_decides_as_the_reference_does(case in case()) {
        if let Err(difference) = check(&case) {
            return Err(TestCaseError::fail(difference));
        }
    }
}
