// SPDX-License-Identifier: Apache-2.0
//! What may differ between ART's tracer and ours: docs/verification.md says why.

use std::cell::RefCell;
use std::collections::HashMap;

use super::compare::{Code, Missing, Rules};
use super::inlining::{pretty, Body, Fate, Inlined};
use super::programs::{is_of_proxy, Exempt};
use super::sequences::{Name, Names};

/// The rules of a comparison.
pub(super) struct Permissions<'a> {
    names: &'a Names,
    exempt: &'a Exempt,
    /// What was inlined in the boot image, and in the program.
    inlined: &'a [&'a Inlined],
    pretty: RefCell<HashMap<Name, Option<String>>>,
}

/// Bodies of the second table follow those of the first.
const TABLE: u32 = 1 << 30;

impl<'a> Permissions<'a> {
    /// No more than two tables of inlined calls are looked at.
    pub(super) fn new(
        names: &'a Names,
        exempt: &'a Exempt,
        inlined: &'a [&'a Inlined],
    ) -> Permissions<'a> {
        Permissions {
            names,
            exempt,
            inlined,
            pretty: RefCell::default(),
        }
    }

    /// As ART prints the method.
    fn with_pretty<T>(&self, name: Name, look: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut known = self.pretty.borrow_mut();
        let text = known
            .entry(name)
            .or_insert_with(|| pretty(self.names.name(name)));
        look(text.as_deref()?)
    }

    fn table(&self, body: Body) -> Option<(&Inlined, Body, u32)> {
        let index = body / TABLE;
        let table = self.inlined.get(index as usize)?;
        Some((table, body % TABLE, index * TABLE))
    }

    /// Whether calls of it are replaced by the compiler, or go past the place where they would be recorded.
    fn is_exempt(&self, name: Name) -> bool {
        let name = self.names.name(name);
        self.exempt.is_critical_native(name) || self.exempt.is_intrinsic(name)
    }
}

impl Rules for Permissions<'_> {
    fn code(&self, name: Name) -> Code {
        let find = |method: &str| {
            let mut tables = self.inlined.iter().zip(0_u32..);
            tables.find_map(|(table, index)| Some(table.compiled(method)? + index * TABLE))
        };
        if self.inlined.is_empty() {
            return Code::Unknown;
        }
        self.with_pretty(name, find)
            .map_or(Code::Unknown, Code::Body)
    }

    fn missing(&self, name: Name, caller: Code) -> Missing {
        if caller == Code::Replaced || self.is_exempt(name) {
            return Missing::May(Code::Replaced);
        }
        let Code::Body(body) = caller else {
            return Missing::No;
        };
        let Some((table, body, offset)) = self.table(body) else {
            return Missing::No;
        };
        let code = |inner| {
            if table.is_pattern(inner) {
                Code::Replaced
            } else {
                Code::Body(inner + offset)
            }
        };
        match self.with_pretty(name, |callee| Some(table.fate(body, callee))) {
            Some(Fate::Inlined(inner)) => Missing::Likely(code(inner)),
            Some(Fate::Both(inner)) => Missing::May(code(inner)),
            Some(Fate::Called) | None => Missing::No,
        }
    }

    // ART's tracer doesn't see native static methods while their class is being initialized: until it is, calls
    // go through the resolution trampoline, straight to the code, past the tracer's stub.
    fn may_add(&self, name: Name, inside: Name) -> bool {
        let class = |name| self.names.name(name).split('(').next()?.rsplit_once('.');
        match (class(name), class(inside)) {
            (Some((of, _)), Some((initialized, "<clinit>"))) => of == initialized,
            _ => false,
        }
    }

    // ART's tracer lists the interface's method in place of a proxy's, so that the proxy's has no name.
    fn alias(&self, name: Name, recorded: Name) -> bool {
        self.names.name(name).starts_with("<method ") && is_of_proxy(self.names.name(recorded))
    }
}
