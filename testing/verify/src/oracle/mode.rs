// SPDX-License-Identifier: Apache-2.0
//! Modes of execution.

/// A mode of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Mode {
    /// Everything interpreted, with both tracers in the same run
    Interpreter,
    /// Methods are compiled at their first call, nothing inlined
    Jit,
    /// Everything compiled ahead of time, nothing inlined
    Aot,
    /// Everything compiled ahead of time, with inlining
    AotInlined,
}

impl Mode {
    pub(super) const ALL: [Mode; 4] = [Mode::Interpreter, Mode::Jit, Mode::Aot, Mode::AotInlined];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Interpreter => "interpreter",
            Mode::Jit => "jit",
            Mode::Aot => "aot",
            Mode::AotInlined => "aot-inlined",
        }
    }

    /// Whether the program is compiled ahead of time.
    pub(super) fn is_ahead(self) -> bool {
        matches!(self, Mode::Aot | Mode::AotInlined)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
