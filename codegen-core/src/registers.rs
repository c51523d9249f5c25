// SPDX-License-Identifier: Apache-2.0
//! Registers and sets of them. A macro, because each encoder needs constants of these types.

/// Defines `Reg`, an instruction set's core registers in the order of their numbers from 0 on, and `RegSet`, a set of
/// them as the bits of `$bits`. Both implement the traits of this crate. Names are printed in lower case.
#[macro_export]
macro_rules! registers {
    ($bits:ty: $($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// A core register, numbered as in the instruction set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the variants' names are the registers' names")]
        pub enum Reg {
            $($(#[$doc])* $name),+
        }

        impl Reg {
            /// All registers, in the order of their numbers.
            pub const ALL: [Reg; [$(Reg::$name),+].len()] = [$(Reg::$name),+];

            /// The register with this number, if there is one.
            pub fn from_number(number: u8) -> Option<Reg> {
                Self::ALL.get(usize::from(number)).copied()
            }

            /// Its number in the instruction set.
            pub const fn number(self) -> u8 {
                self as u8
            }
        }

        impl $crate::Register for Reg {
            fn number(self) -> u8 {
                Reg::number(self)
            }

            fn from_number(number: u8) -> Option<Reg> {
                Reg::from_number(number)
            }
        }

        impl ::std::fmt::Display for Reg {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&::std::format!("{self:?}").to_lowercase())
            }
        }

        /// A set of core registers.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct RegSet($bits);

        impl RegSet {
            /// No register.
            pub const EMPTY: RegSet = RegSet(0);

            /// These registers.
            pub const fn of(registers: &[Reg]) -> RegSet {
                let mut set = RegSet::EMPTY;
                let mut i = 0;
                while i < registers.len() {
                    set = set.with(registers[i]);
                    i += 1;
                }
                set
            }

            /// This set and `register`.
            pub const fn with(self, register: Reg) -> RegSet {
                RegSet(self.0 | 1 << register.number())
            }

            /// This set without `register`.
            pub const fn without(self, register: Reg) -> RegSet {
                RegSet(self.0 & !(1 << register.number()))
            }

            /// Whether `register` is in it.
            pub const fn contains(self, register: Reg) -> bool {
                self.0 & 1 << register.number() != 0
            }

            /// Its registers, in the order of their numbers.
            pub fn iter(self) -> impl DoubleEndedIterator<Item = Reg> {
                Reg::ALL.into_iter().filter(move |r| self.contains(*r))
            }
        }

        impl $crate::RegisterSet<Reg> for RegSet {
            const EMPTY: RegSet = RegSet::EMPTY;

            fn contains(self, register: Reg) -> bool {
                RegSet::contains(self, register)
            }
        }

        impl FromIterator<Reg> for RegSet {
            fn from_iter<I: IntoIterator<Item = Reg>>(registers: I) -> RegSet {
                registers.into_iter().fold(RegSet::EMPTY, RegSet::with)
            }
        }

        impl ::std::fmt::Debug for RegSet {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_set().entries(self.iter()).finish()
            }
        }

        impl ::std::fmt::Display for RegSet {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str("{")?;
                for (i, register) in self.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    ::std::write!(f, "{comma}{register}")?;
                }
                f.write_str("}")
            }
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "an encoder makes them public")]
mod tests {
    crate::registers!(u16: A0, #[doc = "The second."] A1, Sp);

    #[test]
    fn sets_keep_their_order_and_print_as_the_assembler_does() {
        const SET: RegSet = RegSet::of(&[Reg::Sp, Reg::A0]);
        assert_eq!(SET.to_string(), "{a0, sp}");
        assert_eq!(format!("{SET:?}"), "{A0, Sp}");
        assert!(SET.contains(Reg::Sp) && !SET.contains(Reg::A1));
        assert_eq!(SET.without(Reg::Sp).with(Reg::A1).to_string(), "{a0, a1}");
        assert_eq!(SET.iter().collect::<RegSet>(), SET);
        assert_eq!(RegSet::default(), RegSet::EMPTY);
    }

    #[test]
    fn numbers_are_places_in_the_list() {
        for (n, register) in (0..).zip(Reg::ALL) {
            assert_eq!(register.number(), n);
            assert_eq!(Reg::from_number(n), Some(register));
        }
        assert_eq!(Reg::from_number(3), None);
        assert_eq!(Reg::A1.to_string(), "a1");
    }
}
