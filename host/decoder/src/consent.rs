// SPDX-License-Identifier: Apache-2.0
//! Traces without the strings that the user did not agree to.

use hindsight_trace_format::container::{Consent, Limit};

use crate::damage::DamagedPart;
use crate::model::Trace;

impl Trace {
    /// The trace with placeholders in place of all strings above this level: see [`StringKind`].
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
