//! Random numbers from a seed: SplitMix64, so that a seed means the same schedule for ever.

use std::sync::Mutex;

use redlock_core::seam::simulation::Entropy;

use super::locked;

/// Draws what the simulation needs.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A stream of its own for every seed.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Self(seed);
        rng.bits();
        rng
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; zero when there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A place in a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    /// True with this chance in a hundred.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// From 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        // 53 bits are what an f64 can hold.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A client's entropy.
#[derive(Debug)]
pub(super) struct Seeded(Mutex<Rng>);

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(Rng::new(seed)))
    }
}

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        let mut rng = locked(&self.0);
        for chunk in bytes.chunks_mut(8) {
            let bits = rng.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}
