// SPDX-License-Identifier: Apache-2.0
//! Signatures in a policy: stacks of calls that are looked for on the device.

use hindsight_trace_query::{Condition, Signature, MAX_SIGNATURES};
use serde::Deserialize;
use toml::Spanned;

use super::error::PolicyError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SignatureFile {
    name: String,
    stack: Vec<String>,
    calls: Option<u32>,
    longest_ms: Option<u32>,
    total_ms: Option<u32>,
}

/// The signatures of a file.
pub(super) fn signatures(
    files: Vec<Spanned<SignatureFile>>,
    text: &str,
) -> Result<Vec<Signature>, PolicyError> {
    let mut all: Vec<Signature> = Vec::new();
    for file in files {
        let at = file.span().start;
        let refused = |problem: String| PolicyError::at(text, at, problem);
        let file = file.into_inner();
        let ns = |ms: Option<u32>| u64::from(ms.unwrap_or(0)) * 1_000_000;
        let condition = Condition {
            calls: u64::from(file.calls.unwrap_or(1)),
            longest_ns: ns(file.longest_ms),
            total_ns: ns(file.total_ms),
        };
        if all.len() == MAX_SIGNATURES {
            return Err(refused(format!(
                "more than {MAX_SIGNATURES} signatures: remove some"
            )));
        }
        if file.name.is_empty() || file.name.len() > 100 {
            return Err(refused("a name has 1 to 100 bytes".into()));
        }
        let signature = Signature::new(&file.name, &file.stack, condition);
        all.push(signature.map_err(|e| refused(e.to_string()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn signatures_are_read_or_refused_with_their_line() {
        let of = |text: &str| Policy::parse(&format!("version = 1\n[[uploads.signature]]\n{text}"));
        let good = of("name = \"s\"\nstack = [\"a.B.c\", \"...\", \"*\"]\nlongest-ms = 100");
        assert_eq!(good.unwrap().uploads.signatures.len(), 1);
        for (text, part) in [
            ("name = \"s\"\nstack = []", "no pattern"),
            ("name = \"s\"\nstack = [\"...\"]", "no pattern"),
            ("name = \"\"\nstack = [\"a\"]", "1 to 100"),
            ("stack = [\"a\"]", "name"),
            ("name = \"s\"\nstack = [\"a\"]\nwhen = 1", "when"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
