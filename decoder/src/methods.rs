// SPDX-License-Identifier: Apache-2.0
//! The methods that a trace names.

use std::borrow::Cow;

use hashbrown::HashMap;
use hindsight_trace_format::container::SymbolTable;

use crate::signature;

/// Index into [`Methods`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct MethodId(pub u32);

impl MethodId {
    /// The method of a call whose entry is not in the ring.
    pub const NOT_RECORDED: MethodId = MethodId(u32::MAX);
}

/// A method, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Method {
    /// Address of the `ArtMethod`.
    pub address: u64,
    /// Class, as people write it: `android.os.Looper`; empty if there is no symbol.
    pub class: String,
    /// Name: `loop`; empty if there is no symbol.
    pub name: String,
    /// Signature as in the dex file: `(I)V`, or empty.
    pub signature: String,
    /// Source file, or empty.
    pub source_file: String,
    /// Methods that R8 inlined into it, `class.name`, if a [`Mapping`](crate::Mapping) said so.
    pub inlined: Vec<String>,
}

impl Method {
    /// Whether a symbol names it.
    pub fn is_named(&self) -> bool {
        !self.name.is_empty() || !self.class.is_empty()
    }

    /// `android.os.Looper.loop`, or `<method 0x70001000>` if there is no symbol.
    pub fn full_name(&self) -> String {
        if self.is_named() {
            format!("{}.{}", self.class, self.name)
        } else {
            format!("<method {:#x}>", self.address)
        }
    }

    /// The types of its parameters, without their packages, as in Java: `(long, String[])`. Empty if the
    /// signature is not known.
    pub fn parameters(&self) -> String {
        let Some((parameters, _)) = signature::types(&self.signature) else {
            return String::new();
        };
        let parameters: Vec<&str> = parameters.iter().map(|p| signature::short(p)).collect();
        format!("({})", parameters.join(", "))
    }

    /// As a person would write it, without packages: `Note NoteStore.find(int)`, `new Note(String)`,
    /// `static initializer of Note`, `lambda in NoteStore.saveAll()`. [`Method::full_name`] if there is no symbol.
    pub fn readable(&self) -> String {
        if !self.is_named() {
            return self.full_name();
        }
        let class = signature::short(&self.class);
        let parameters = self.parameters();
        match self.name.as_str() {
            "<init>" => return format!("new {class}{parameters}"),
            "<clinit>" => return format!("static initializer of {class}"),
            _ => {}
        }
        // javac's and D8's names: lambda$saveAll$0
        let lambda = self.name.strip_prefix("lambda$");
        if let Some((of, number)) = lambda.and_then(|rest| rest.rsplit_once('$')) {
            if !of.is_empty() && number.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return format!("lambda in {class}.{of}{parameters}");
            }
        }
        match signature::types(&self.signature) {
            Some((_, returned)) => {
                let returned = signature::short(&returned);
                format!("{returned} {class}.{}{parameters}", self.name)
            }
            None => format!("{class}.{}", self.name),
        }
    }
}

/// The methods of a trace, each once.
#[derive(Clone, Debug, Default)]
pub struct Methods {
    methods: Vec<Method>,
}

impl Methods {
    /// `methods[i]` gets the id `i`.
    pub(crate) fn new(methods: Vec<Method>) -> Self {
        Methods { methods }
    }

    /// Name of a call whose entry is not in the ring.
    pub const NOT_RECORDED_NAME: &'static str = "<entered before the trace>";

    /// How many there are.
    pub fn len(&self) -> usize {
        self.methods.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
    }

    /// The method; `None` for [`MethodId::NOT_RECORDED`].
    pub fn get(&self, id: MethodId) -> Option<&Method> {
        self.methods.get(id.0 as usize)
    }

    /// All, in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (MethodId, &Method)> {
        self.methods
            .iter()
            .enumerate()
            .map(|(i, m)| (MethodId(i as u32), m))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Method> {
        self.methods.iter_mut()
    }

    /// `class.name`, `<method 0x…>`, or [`Methods::NOT_RECORDED_NAME`].
    pub fn name(&self, id: MethodId) -> Cow<'static, str> {
        match self.get(id) {
            Some(method) => method.full_name().into(),
            None => Self::NOT_RECORDED_NAME.into(),
        }
    }
}

/// Identity of a method: its address and its symbol, since an address may have had several names.
type Key = (u64, Option<u32>);

/// Merges the methods of all threads into the [`Methods`] of a file.
#[derive(Default)]
pub(crate) struct Merger {
    ids: HashMap<Key, MethodId>,
    methods: Vec<Method>,
}

impl Merger {
    /// Adds the methods of one thread, and returns their ids in the file.
    pub(crate) fn merge(
        &mut self,
        local: &[Key],
        symbols: Option<&SymbolTable<'_>>,
    ) -> Vec<MethodId> {
        let methods = &mut self.methods;
        local
            .iter()
            .map(|&key| {
                *self.ids.entry(key).or_insert_with(|| {
                    let (address, symbol) = key;
                    let symbol = symbol.and_then(|i| symbols?.get(i as usize));
                    methods.push(match symbol {
                        Some(s) => Method {
                            address,
                            class: s.class.to_owned(),
                            name: s.name.to_owned(),
                            signature: s.signature.to_owned(),
                            source_file: s.source_file.to_owned(),
                            inlined: Vec::new(),
                        },
                        None => Method {
                            address,
                            ..Method::default()
                        },
                    });
                    MethodId((methods.len() - 1) as u32)
                })
            })
            .collect()
    }

    pub(crate) fn finish(self) -> Methods {
        Methods {
            methods: self.methods,
        }
    }
}

/// How an address was resolved, and for which counter values that holds.
#[derive(Clone, Copy)]
struct Resolved {
    from: u64,
    /// Inclusive.
    until: u64,
    id: u32,
    named: bool,
}

/// An entry of the table of narrow addresses.
#[derive(Clone, Copy)]
struct Narrow {
    /// 0: none.
    address: u32,
    /// The id, with flags above it.
    id: u32,
}

/// A ring names fewer methods: each takes a slot, and a ring has at most 2^27.
const ID_MASK: u32 = (1 << 30) - 1;
/// Flag: the method has no symbol.
const UNNAMED: u32 = 1 << 30;
/// Flag: the address was reused; look the name up by time.
const VARIES: u32 = 1 << 31;
/// log2 of the table's initial number of entries: 32 KiB.
const FIRST_TABLE_LOG2: u32 = 12;

/// Turns addresses into ids, for one thread.
pub(crate) struct Resolver<'a, 'b> {
    symbols: Option<&'b SymbolTable<'a>>,
    /// Open addressing; no more than a quarter is in use. Nearly all lookups end here.
    table: Vec<Narrow>,
    /// How far to shift a hash to the right.
    shift: u32,
    used: usize,
    by_address: HashMap<u64, Resolved>,
    ids: HashMap<Key, u32>,
    keys: Vec<Key>,
}

impl<'a, 'b> Resolver<'a, 'b> {
    pub(crate) fn new(symbols: Option<&'b SymbolTable<'a>>) -> Self {
        Resolver {
            symbols,
            table: vec![Narrow { address: 0, id: 0 }; 1 << FIRST_TABLE_LOG2],
            shift: 32 - FIRST_TABLE_LOG2,
            used: 0,
            by_address: HashMap::new(),
            ids: HashMap::new(),
            keys: Vec::new(),
        }
    }

    /// Index of an address in the table, or of the free entry for it.
    #[inline]
    fn place(table: &[Narrow], shift: u32, address: u32) -> usize {
        let mask = table.len() - 1;
        // Fibonacci hashing: ArtMethods are 8-byte aligned, and the methods of a class are adjacent.
        let mut at = (address.wrapping_mul(0x9e37_79b1) >> shift) as usize & mask;
        while table[at].address != address && table[at].address != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// As [`Resolver::resolve`], for an address below 4 GiB that is not 0.
    #[inline]
    pub(crate) fn resolve_narrow(&mut self, address: u32, counter: u64) -> (u32, bool) {
        let at = Self::place(&self.table, self.shift, address);
        let hit = self.table[at];
        if hit.address == 0 || hit.id & VARIES != 0 {
            return self.resolve_first(address, counter);
        }
        (hit.id & ID_MASK, hit.id & UNNAMED == 0)
    }

    #[cold]
    fn resolve_first(&mut self, address: u32, counter: u64) -> (u32, bool) {
        let resolved = self.resolved(u64::from(address), counter);
        let always = resolved.from == 0 && resolved.until == u64::MAX;
        let at = Self::place(&self.table, self.shift, address);
        if self.table[at].address == 0 {
            self.used += 1;
        }
        let unnamed = if resolved.named { 0 } else { UNNAMED };
        self.table[at] = Narrow {
            address,
            id: if always {
                resolved.id | unnamed
            } else {
                VARIES
            },
        };
        if self.used > self.table.len() / 4 {
            self.grow();
        }
        (resolved.id, resolved.named)
    }

    fn grow(&mut self) {
        let mut table = vec![Narrow { address: 0, id: 0 }; self.table.len() * 4];
        self.shift = self.shift.saturating_sub(2);
        for &entry in self.table.iter().filter(|entry| entry.address != 0) {
            let at = Self::place(&table, self.shift, entry.address);
            table[at] = entry;
        }
        self.table = table;
    }

    /// The thread's id of the method that was at `address` at the time `counter`, and whether it has
    /// a name.
    pub(crate) fn resolve(&mut self, address: u64, counter: u64) -> (u32, bool) {
        let resolved = self.resolved(address, counter);
        (resolved.id, resolved.named)
    }

    fn resolved(&mut self, address: u64, counter: u64) -> Resolved {
        if let Some(r) = self.by_address.get(&address) {
            if r.from <= counter && counter <= r.until {
                return *r;
            }
        }
        let (symbol, from, until) = match self.symbols {
            Some(table) => Self::find(table, address, counter),
            None => (None, 0, u64::MAX),
        };
        let key = (address, symbol);
        let keys = &mut self.keys;
        let id = *self.ids.entry(key).or_insert_with(|| {
            keys.push(key);
            (keys.len() - 1) as u32
        });
        let resolved = Resolved {
            from,
            until,
            id,
            named: symbol.is_some(),
        };
        self.by_address.insert(address, resolved);
        resolved
    }

    /// The symbol's index, and the counter values for which it holds. As
    /// [`SymbolTable::lookup`]: before the first name of an address, that name is used.
    fn find(table: &SymbolTable<'_>, address: u64, counter: u64) -> (Option<u32>, u64, u64) {
        let key = |i: usize| {
            table
                .get(i)
                .map_or((u64::MAX, u64::MAX), |s| (s.address, s.valid_from))
        };
        let partition = |before: &dyn Fn((u64, u64)) -> bool| {
            let (mut low, mut high) = (0, table.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if before(key(middle)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        let newer = partition(&|(a, from)| a < address || (a == address && from <= counter));
        let until = match key(newer) {
            (a, from) if newer < table.len() && a == address => from.saturating_sub(1),
            _ => u64::MAX,
        };
        match newer.checked_sub(1).map(|i| (i, key(i))) {
            Some((i, (a, from))) if a == address => {
                let first = i == 0 || key(i - 1).0 != address;
                (u32::try_from(i).ok(), if first { 0 } else { from }, until)
            }
            // Older than its oldest name.
            _ if newer < table.len() && key(newer).0 == address => {
                (u32::try_from(newer).ok(), 0, until)
            }
            _ => (None, 0, u64::MAX),
        }
    }

    pub(crate) fn into_keys(self) -> Vec<Key> {
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::container::{Symbol, Symbols};

    #[test]
    fn parameters_read_as_in_java() {
        let parameters = |signature: &str| {
            let method = Method {
                signature: signature.into(),
                ..Method::default()
            };
            method.parameters()
        };
        assert_eq!(parameters("()V"), "()");
        assert_eq!(
            parameters("(J[Ljava/lang/String;[[IZ)V"),
            "(long, String[], int[][], boolean)"
        );
        assert_eq!(parameters("(Ljava/util/Map$Entry;)Z"), "(Entry)");
        for nonsense in ["", "V", "(", "(Q)V", "([", "(Ljava/lang", "(\u{1F600})"] {
            assert!(
                matches!(parameters(nonsense).as_str(), "" | "()"),
                "{nonsense}"
            );
        }
    }

    #[test]
    fn names_read_as_people_write_them() {
        let readable = |name: &str, signature: &str| {
            let method = Method {
                class: "a.b.Outer$Store".into(),
                name: name.into(),
                signature: signature.into(),
                ..Method::default()
            };
            method.readable()
        };
        assert_eq!(readable("find", "(I)La/Note;"), "Note Store.find(int)");
        assert_eq!(readable("<init>", "(J)V"), "new Store(long)");
        assert_eq!(readable("<clinit>", "()V"), "static initializer of Store");
        assert_eq!(readable("lambda$save$0", "()V"), "lambda in Store.save()");
        assert_eq!(readable("find", ""), "Store.find");
    }

    #[test]
    fn an_address_has_the_name_of_its_time() {
        let symbol = |address, valid_from, name: &str| Symbol {
            address,
            valid_from,
            class: "C".into(),
            name: name.into(),
            ..Symbol::default()
        };
        let bytes = Symbols {
            symbols: vec![
                symbol(0x1000, 0, "always"),
                symbol(0x2000, 100, "first"),
                symbol(0x2000, 200, "second"),
                symbol(0x3000, 0, "last"),
            ],
        }
        .encode();
        let table = SymbolTable::decode(&bytes).unwrap();
        let mut resolver = Resolver::new(Some(&table));
        let asked = [
            (0x1000, 0, "C.always"),
            (0x1000, u64::MAX, "C.always"),
            (0x2000, 250, "C.second"),
            (0x2000, 200, "C.second"),
            (0x2000, 199, "C.first"),
            (0x2000, 100, "C.first"),
            (0x2000, 99, "C.first"),
            (0x2000, 250, "C.second"),
            (0x3000, 5, "C.last"),
            (0x4000, 5, "<method 0x4000>"),
            (0x0800, 5, "<method 0x800>"),
        ];
        // In this order, then backwards: the cache must not change an answer.
        let got: Vec<_> = (asked.iter().chain(asked.iter().rev()))
            .map(|&(address, counter, _)| resolver.resolve(address, counter))
            .collect();
        let keys = resolver.into_keys();
        let mut merger = Merger::default();
        let ids = merger.merge(&keys, Some(&table));
        let methods = merger.finish();
        for (&(address, counter, name), (id, named)) in
            asked.iter().chain(asked.iter().rev()).zip(got)
        {
            assert_eq!(
                methods.name(ids[id as usize]),
                name,
                "{address:#x} at {counter}"
            );
            assert_eq!(named, name.starts_with('C'));
        }
        assert_eq!(methods.len(), 6);
    }
}
