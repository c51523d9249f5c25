// SPDX-License-Identifier: Apache-2.0
//! Names of methods as ART's tools print them.

/// `class.name(signature)` as ART prints it: `int a.B.name(int, long[])`.
pub(crate) fn pretty(method: &str) -> Option<String> {
    let (name, signature) = method.split_once('(')?;
    let (parameters, result) = signature.split_once(')')?;
    let mut rest = parameters;
    let mut types = Vec::new();
    while !rest.is_empty() {
        let (one, after) = pretty_type(rest)?;
        types.push(one);
        rest = after;
    }
    let (result, "") = pretty_type(result)? else {
        return None;
    };
    Some(format!("{result} {name}({})", types.join(", ")))
}

/// The first of some type descriptors, and the rest.
fn pretty_type(text: &str) -> Option<(String, &str)> {
    let element = text.trim_start_matches('[');
    let dimensions = text.len() - element.len();
    let (name, rest) = if let Some(class) = element.strip_prefix('L') {
        let (class, rest) = class.split_once(';')?;
        (class.replace('/', "."), rest)
    } else {
        let name = match element.chars().next()? {
            'B' => "byte",
            'C' => "char",
            'D' => "double",
            'F' => "float",
            'I' => "int",
            'J' => "long",
            'S' => "short",
            'Z' => "boolean",
            'V' => "void",
            _ => return None,
        };
        (name.to_owned(), &element[1..])
    };
    Some((name + &"[]".repeat(dimensions), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_art_prints_them() {
        let name = |text| pretty(text).unwrap_or_default();
        assert_eq!(name("a.B.c(I[[JLd/E;)V"), "void a.B.c(int, long[][], d.E)");
        assert_eq!(name("a.B.<init>()[Ld/E$F;"), "d.E$F[] a.B.<init>()");
        assert_eq!(pretty("a.B.c(Q)V"), None);
        assert_eq!(pretty("<unknown>"), None);
    }
}
