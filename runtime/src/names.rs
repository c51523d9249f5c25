// SPDX-License-Identifier: Apache-2.0
//! Names that programs give their own events: registered once, and used by number.

use std::collections::HashMap;

use std::sync::Arc;

use hindsight_trace_format::container::Strings;

use crate::shared::SharedMemory;

/// Maximum number of names.
const MAX_NAMES: usize = 4096;
/// Maximum length of a name, bytes; longer ones are cut.
const MAX_BYTES: usize = 200;

/// The registered names, at most 800 KiB.
#[derive(Default)]
pub(crate) struct Names {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    /// Names that found no room.
    refused: u64,
    /// Gets each name, too.
    shared: Option<Arc<SharedMemory>>,
}

impl Names {
    /// No names yet. Each one goes into the memory that the process shares, too, if it does.
    pub(crate) fn new(shared: Option<&Arc<SharedMemory>>) -> Self {
        Names {
            shared: shared.map(Arc::clone),
            ..Names::default()
        }
    }

    /// The number of a name, from 1 on; 0 if there is no room for another name.
    pub(crate) fn register(&mut self, name: &str) -> u32 {
        let name = clip(name);
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() == MAX_NAMES {
            self.refused += 1;
            return 0;
        }
        self.names.push(name.to_owned());
        if let Some(shared) = &self.shared {
            shared.add_event_name(name);
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The name with this number; empty if there is none.
    pub(crate) fn text(&self, number: u32) -> String {
        let place = (number as usize).checked_sub(1);
        let name = place.and_then(|place| self.names.get(place));
        name.cloned().unwrap_or_default()
    }

    /// The names, for a file.
    pub(crate) fn strings(&self) -> Strings {
        Strings {
            strings: self.names.clone(),
        }
    }

    /// Names that found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

/// The first characters of a name, at most [`MAX_BYTES`] bytes.
fn clip(name: &str) -> &str {
    let mut end = name.len().min(MAX_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_the_number_of_names_is_bounded() {
        let mut names = Names::default();
        assert_eq!((names.register("a"), names.register("b")), (1, 2));
        assert_eq!(names.register("a"), 1);
        for i in 2..MAX_NAMES {
            assert_eq!(names.register(&i.to_string()) as usize, i + 1);
        }
        assert_eq!((names.register("one more"), names.register("b")), (0, 2));
        assert_eq!(names.refused(), 1);
        let strings = names.strings();
        assert_eq!(strings.get(2), Some("b"));
        assert_eq!(strings.strings.len(), MAX_NAMES);
    }

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        let mut names = Names::default();
        names.register(&"ä".repeat(MAX_BYTES));
        assert_eq!(names.strings().get(1).unwrap().len(), MAX_BYTES);
        names.register(&format!("x{}", "ä".repeat(MAX_BYTES)));
        assert_eq!(names.strings().get(2).unwrap().len(), MAX_BYTES - 1);
    }
}
