//! Source of random numbers: the operating system, or the seed of a test.

use std::sync::{Mutex, PoisonError};

/// Generator of random numbers. Ids are made from them, so the next number must not be predictable.
#[derive(Debug)]
pub(crate) struct Entropy(Mutex<Source>);

#[derive(Debug)]
enum Source {
    /// Numbers from the operating system, fetched in batches because each call is expensive.
    System(Vec<u64>),
    /// Always the same numbers for the same seed.
    Seeded(u64),
}

/// Number of random numbers that are fetched together.
const STOCK: usize = 64;

impl Entropy {
    pub(crate) fn system() -> Self {
        Self(Mutex::new(Source::System(Vec::new())))
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(Source::Seeded(seed)))
    }

    /// Returns a random number.
    pub(crate) fn number(&self) -> u64 {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Source::System(stock) => {
                if stock.is_empty() {
                    let mut bytes = [0; STOCK * 8];
                    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
                    let (words, _) = bytes.as_chunks::<8>();
                    stock.extend(words.iter().copied().map(u64::from_le_bytes));
                }
                stock.pop().expect("it was just filled")
            }
            Source::Seeded(state) => {
                // SplitMix64.
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ (mixed >> 31)
            }
        }
    }

    /// Returns a random number from 0 to 1.
    pub(crate) fn chance(&self) -> f64 {
        let bits = u32::try_from(self.number() >> 32).unwrap_or_default();
        f64::from(bits) / f64::from(u32::MAX)
    }

    /// Returns a new engine id.
    pub(crate) fn engine_id(&self) -> u128 {
        (u128::from(self.number()) << 64) | u128::from(self.number())
    }
}
