// SPDX-License-Identifier: Apache-2.0
//! The fields of events that programs read most.

use hindsight_trace_format::catalogue::{Field, CATALOGUE};
use hindsight_trace_format::slot::Extension;

/// The field of an event, for constants: reading it takes no search by its name.
///
/// ```
/// use hindsight_decoder::{catalogue::Field, field, Extension};
///
/// const NUMBER: Field = field(Extension::WaitBegin, "number");
/// assert_eq!(NUMBER.get(&[7 << 32]), 7);
/// ```
///
/// # Panics
/// If the event has no such field; in a constant, that is an error at compile time.
pub const fn field(event: Extension, name: &str) -> Field {
    let mut spec = 0;
    while spec < CATALOGUE.len() {
        if CATALOGUE[spec].extension as u32 == event as u32 {
            let fields = CATALOGUE[spec].fields;
            let mut i = 0;
            while i < fields.len() {
                if is_same(fields[i].name.as_bytes(), name.as_bytes()) {
                    return fields[i];
                }
                i += 1;
            }
        }
        spec += 1;
    }
    panic!("the event has no such field")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_found_by_its_name() {
        for spec in CATALOGUE {
            for expected in spec.fields {
                assert_eq!(field(spec.extension, expected.name), *expected);
            }
        }
    }
}
