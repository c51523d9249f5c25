// SPDX-License-Identifier: Apache-2.0
//! Traces without the strings that the user did not agree to.

use hindsight_trace_format::catalogue::FieldKind;
use hindsight_trace_format::container::{Consent, Limit};

use crate::damage::DamagedPart;
use crate::model::{ThreadEvent, Trace};

impl Trace {
    /// The trace with placeholders in place of all strings above this level, and without values of fields: see [`StringKind`].
    ///
    /// [`StringKind`]: crate::StringKind
    #[must_use]
    pub fn limited_to(mut self, consent: Consent) -> Trace {
        if consent == Consent::Content {
            return self;
        }
        let mut limit = Limit::new(consent);
        limit.process(&mut self.process);
        limit.strings(&mut self.strings);
        limit.losses(&mut self.losses);
        for thread in &mut self.threads {
            limit.thread(&mut thread.name);
            thread.events.iter_mut().for_each(forget_value);
        }
        for damage in &mut self.damaged {
            if let DamagedPart::Ring {
                name: Some(name), ..
            } = &mut damage.part
            {
                limit.thread(name);
            }
        }
        for method in self.methods.iter_mut() {
            limit.method(
                &mut method.class,
                &mut method.name,
                &mut method.signature,
                &mut method.source_file,
            );
            if consent < Consent::Names {
                method.inlined.clear();
            }
        }
        self
    }
}

/// Removes the value of the program that an event has, if it has one: values are content.
fn forget_value(event: &mut ThreadEvent) {
    let mut fields = event.spec().fields.iter();
    if let Some(field) = fields.find(|f| f.kind == FieldKind::Value) {
        field.set(&mut event.payload, 0);
        event.set("type", 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extension;
    use hindsight_testkit::Script;

    #[test]
    fn values_need_the_consent_of_content() {
        let mut s = Script::new("p");
        let name = s.string("A.b");
        let t = s.events_thread(1, "t", 1);
        let written = [("name", name), ("object", 3), ("type", 6), ("value", 4711)];
        s.at(t, 1).event(Extension::FieldWritten, &written);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        for (consent, value) in [
            (Consent::Content, (6, 4711)),
            (Consent::Names, (0, 0)),
            (Consent::Structure, (0, 0)),
        ] {
            let limited = trace.clone().limited_to(consent);
            let event = &limited.threads[0].events[0];
            assert_eq!((event.get("type"), event.get("value")), value);
            assert_eq!(event.get("object"), 3);
        }
    }
}
