// SPDX-License-Identifier: Apache-2.0
//! What the events mean that the device's rules for libraries make.

/// The rules, as in a file.
pub(super) const TEXT: &str = include_str!("../../rules/libraries.toml");

#[cfg(test)]
mod tests {
    use hindsight_decoder::library_rules;
    use wildmatch::WildMatch;

    use super::super::Rules;
    use super::*;

    /// The names in a text: after `key`, up to a character that ends them.
    fn names<'t>(text: &'t str, key: &str, ends: &[char]) -> Vec<&'t str> {
        let after = text.split(key).skip(1);
        after.filter_map(|rest| rest.split(ends).next()).collect()
    }

    #[test]
    fn each_name_of_a_rule_has_a_meaning_and_each_meaning_a_name() {
        let parsed = Rules::parse(TEXT).unwrap();
        assert!(!parsed.edges.is_empty() && !parsed.split.is_empty());
        let recorded = names(library_rules::TEXT, "name=", &['\n']);
        let meant = names(TEXT, "name = \"", &['"']);
        for name in &recorded {
            let mut patterns = meant.iter().map(|pattern| WildMatch::new(pattern));
            assert!(
                patterns.any(|pattern| pattern.matches(name)),
                "{name} means nothing"
            );
        }
        for pattern in meant {
            let pattern = WildMatch::new(pattern);
            assert!(
                recorded.iter().any(|name| pattern.matches(name)),
                "no rule of the device is called {pattern}"
            );
        }
    }
}
