// SPDX-License-Identifier: Apache-2.0
//! Where the value in a register comes from, along the way that was taken.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::dex::{decode, Archive, Dex, FieldName, Kind, MethodName};
use crate::taken::Taken;

/// Most pairs of an instruction and a register that are looked at for one value.
const MAX_STEPS: usize = 2_000;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Source {
    /// A field, which the instruction at `at` reads.
    Field {
        /// The field.
        field: FieldName,
        /// The instruction.
        at: u32,
        /// Whether it is part of the loop; if not, the loop sees no change of the field.
        in_loop: bool,
    },
    /// The result of a call.
    Call {
        /// The method that the call names; an object may have another one of this name and signature.
        method: MethodName,
        /// The instruction.
        at: u32,
        /// Whether it is part of the loop.
        in_loop: bool,
        /// The field that the named method returns, if it does nothing else.
        returns: Option<FieldName>,
    },
    /// A constant.
    Constant {
        /// Its value.
        value: i64,
    },
    /// An argument, or something else that is not followed further.
    Other,
}

/// A value that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Where it comes from, without duplicates.
    pub(crate) sources: Vec<Source>,
    /// Whether it is computed from the sources, rather than being one of them.
    pub(crate) is_computed: bool,
}

/// A loop, and where its code is from.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) archive: &'a Archive,
    /// The file that has the method.
    pub(crate) dex: &'a Dex,
    /// The way through the method.
    pub(crate) taken: &'a Taken<'a>,
    /// The loop's instructions.
    pub(crate) inside: &'a BTreeSet<u32>,
}

/// Where the value of `register` comes from that the instruction at `at` reads. Several ways there may give several sources.
pub(crate) fn value_of(scene: Scene<'_>, at: u32, register: u16) -> Value {
    let Scene {
        dex, taken, inside, ..
    } = scene;
    let mut value = Value {
        sources: Vec::new(),
        is_computed: false,
    };
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![(at, register)];
    while let Some((at, register)) = open.pop() {
        let before = taken.before(at);
        if at == 0 || before.is_empty() {
            // The method's begin, to which a loop may go back, or a handler of exceptions.
            found.insert(Source::Other);
        }
        for &previous in before {
            if !seen.insert((previous, register)) {
                continue;
            }
            if seen.len() > MAX_STEPS {
                found.insert(Source::Other);
                open.clear();
                break;
            }
            match taken.kind(previous) {
                Some(Kind::ReadField { to, field }) if to == register => {
                    let field = dex.field(field);
                    let source = field.map(|field| Source::Field {
                        field,
                        at: previous,
                        in_loop: inside.contains(&previous),
                    });
                    found.insert(source.unwrap_or(Source::Other));
                }
                Some(Kind::Result { to }) if to == register => {
                    let calls = taken.before(previous).iter();
                    let calls = calls.map(|&call| call_at(scene, call));
                    found.extend(calls);
                }
                Some(Kind::Constant { to, value }) if to == register => {
                    found.insert(Source::Constant { value });
                }
                Some(Kind::Compute { to, from }) if to == register => {
                    // A move only copies.
                    value.is_computed |= !taken.is_move(previous);
                    open.extend(from.into_iter().flatten().map(|from| (previous, from)));
                }
                Some(Kind::Writes { to }) if to == register => {
                    found.insert(Source::Other);
                }
                _ => open.push((previous, register)),
            }
        }
    }
    value.sources = found.into_iter().collect();
    value
}

fn call_at(scene: Scene<'_>, at: u32) -> Source {
    let Some(Kind::Call { method }) = scene.taken.kind(at) else {
        return Source::Other;
    };
    let Some(method) = scene.dex.method(method) else {
        return Source::Other;
    };
    let returns = scene.archive.code(&method).and_then(|(dex, code)| {
        // It reads a field, and returns that.
        let (Kind::ReadField { to, field }, length) = decode(&code.units, 0)? else {
            return None;
        };
        let last = *code.units.get(length)?;
        let is_return = matches!(last as u8, 0x0f..=0x11) && last >> 8 == to;
        is_return.then(|| dex.field(field)).flatten()
    });
    Source::Call {
        method,
        at,
        in_loop: scene.inside.contains(&at),
        returns,
    }
}
