// SPDX-License-Identifier: Apache-2.0
//! Strings of all traces, each once.

use hashbrown::HashMap;

/// Number of a string in a [`Session`](crate::Session).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub u32);

impl StringId {
    /// The empty string: nothing is known.
    pub const NONE: StringId = StringId(0);
}

/// Strings, each once.
#[derive(Clone, Debug)]
pub(crate) struct Interner {
    strings: Vec<Box<str>>,
    ids: HashMap<Box<str>, u32>,
}

impl Default for Interner {
    fn default() -> Self {
        let mut interner = Interner {
            strings: Vec::new(),
            ids: HashMap::new(),
        };
        interner.intern("");
        interner
    }
}

impl Interner {
    pub(crate) fn intern(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.ids.get(text) {
            return StringId(id);
        }
        let id = self.strings.len() as u32;
        self.strings.push(text.into());
        self.ids.insert(text.into(), id);
        StringId(id)
    }

    /// Empty for a number that is no string's.
    pub(crate) fn get(&self, id: StringId) -> &str {
        self.strings.get(id.0 as usize).map_or("", |s| s)
    }

    pub(crate) fn find(&self, text: &str) -> Option<StringId> {
        self.ids.get(text).copied().map(StringId)
    }
}
