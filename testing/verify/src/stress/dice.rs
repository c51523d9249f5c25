// SPDX-License-Identifier: Apache-2.0
//! Pseudorandom numbers that depend on the seed only, not on the machine or the version of a library.

/// xorshift64*.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// A separate sequence for each `purpose`.
    pub(crate) fn new(seed: u64, purpose: u64) -> Dice {
        let mixed =
            (seed ^ purpose.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc;
        Dice(mixed.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A random element.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let roll = |seed, purpose| {
            let mut dice = Dice::new(seed, purpose);
            (0..64).map(|_| dice.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(roll(7, 1), roll(7, 1));
        assert_ne!(roll(7, 1), roll(8, 1));
        assert_ne!(roll(7, 1), roll(7, 2));
        assert!((0..6).all(|side| roll(0, 0).contains(&side)));
    }
}
