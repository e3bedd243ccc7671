//! Deterministic random numbers, computed from a seed and a name.

use std::ops::RangeInclusive;

/// Random number generator of one theme. Each theme has its own, so that the traffic of one theme
/// does not depend on another's.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64, theme: &str) -> Self {
        let mix = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(theme.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix))
    }

    /// Returns the next number of the `SplitMix64` generator.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number within a range.
    pub(super) fn of(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.next() % (range.end() - range.start() + 1)
    }

    /// Returns one of several values.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.next() % from.len() as u64;
        from[usize::try_from(at).expect("an index fits into usize")]
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn the_same_seed_says_the_same_and_themes_differ() {
        let draw = |seed, theme| {
            let mut chance = Chance::new(seed, theme);
            [0; 8].map(|_| chance.of(1..=1000))
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert!(draw(3, "c").iter().all(|n| (1..=1000).contains(n)));
    }
}
