// SPDX-License-Identifier: Apache-2.0
//! The journal of the shared memory: names, written when they become known.

use std::sync::atomic::Ordering;

use hindsight_trace_format::container::Symbol;
use hindsight_trace_format::shared::{Entry, LinkedClass, NamedMethod};

use super::mapping::SharedMemory;
use crate::host::ProcessIdentity;
use crate::sync::lock;

impl SharedMemory {
    /// Adds records. Those for which there is no room are counted.
    fn add(&self, entries: impl IntoIterator<Item = Entry>) {
        let mut journal = lock(&self.journal);
        for entry in entries {
            let at = journal.bytes();
            let records = loop {
                let records = journal.records(&entry);
                if records.is_some() || !self.extend_journal(&mut journal) {
                    break records;
                }
            };
            match records {
                Some(bytes) => self.write_journal(at, &bytes),
                None => {
                    self.header().dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The process has this name, and these facts, from now on.
    pub(crate) fn set_identity(&self, identity: &ProcessIdentity) {
        self.add([Entry::Process {
            name: identity.name.clone(),
            extra: identity.extra.clone(),
        }]);
    }

    /// The program has registered the next name of its own events.
    pub(crate) fn add_event_name(&self, name: &str) {
        self.add([Entry::EventName(name.to_owned())]);
    }

    /// These methods were linked before the counter was at `counter`, and none of them has run yet; 0: before recording
    /// started.
    pub(crate) fn add_methods(&self, counter: u64, symbols: &[Symbol]) {
        let classes = symbols.chunk_by(|a, b| {
            (&a.class, &a.source_file, a.dex_checksum) == (&b.class, &b.source_file, b.dex_checksum)
        });
        self.add(classes.map(|methods| {
            let method = |symbol: &Symbol| NamedMethod {
                address: symbol.address,
                name: symbol.name.clone(),
                signature: symbol.signature.clone(),
                dex_method_index: symbol.dex_method_index,
            };
            Entry::Class(LinkedClass {
                counter,
                class: methods[0].class.clone(),
                source_file: methods[0].source_file.clone(),
                dex_checksum: methods[0].dex_checksum,
                methods: methods.iter().map(method).collect(),
            })
        }));
    }
}
