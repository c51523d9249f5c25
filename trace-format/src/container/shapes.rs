// SPDX-License-Identifier: Apache-2.0
//! Which strings of a damaged table of symbols are whole. A wrong end makes fragments of two strings, and bytes that are
//! missing make fragments of all strings after them. The shape of strings tells that: signatures most of all, as few other
//! bytes make one.

/// One changed byte makes at most so many strings wrong.
const OF_ONE_BYTE: usize = 2;

/// What a string looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A method's signature.
    Signature,
    /// The name of a class, method or file.
    Name,
    /// None of these, or no string.
    Wrong,
}

/// The strings that can be trusted; the others are empty. `None` stands for a string that cannot be read. `has_all_bytes`:
/// the strings together are as long as when they were written.
pub(super) fn whole(strings: Vec<Option<&str>>, has_all_bytes: bool) -> Vec<&str> {
    let shapes: Vec<Shape> = strings.iter().map(|s| shape(*s)).collect();
    let mut is_trusted = vec![true; strings.len()];
    // Where a signature stands, the strings stand where their ends say. From one to the next, few may be wrong.
    let mut from = 0;
    while from < shapes.len() {
        let length = shapes[from..].iter().position(|s| *s == Shape::Signature);
        let until = length.map_or(shapes.len(), |length| from + length);
        let is_wrong = |i: &usize| shapes[*i] == Shape::Wrong;
        // After the last signature, nothing tells where strings stand if bytes are missing.
        let most = match length.is_some() || has_all_bytes {
            true => OF_ONE_BYTE,
            false => 0,
        };
        match (from..until).filter(is_wrong).count() > most {
            true => is_trusted[from..until].fill(false),
            // The end that it shares with its neighbour may be the wrong one.
            false => (from..until).filter(is_wrong).for_each(|i| {
                is_trusted[i.saturating_sub(1)..(i + 2).min(shapes.len())].fill(false);
            }),
        }
        from = until + 1;
    }
    let trusted = strings.into_iter().zip(is_trusted);
    trusted
        .map(|(string, is)| string.filter(|_| is).unwrap_or_default())
        .collect()
}

/// Whether it is the signature of a method, such as `(ILjava/lang/String;)V`.
pub(super) fn is_signature(string: &str) -> bool {
    let parameters = string.strip_prefix('(').and_then(|s| s.split_once(')'));
    let Some((mut parameters, result)) = parameters else {
        return false;
    };
    while !parameters.is_empty() {
        match after_type(parameters) {
            Some(rest) => parameters = rest,
            None => return false,
        }
    }
    result == "V" || after_type(result) == Some("")
}

/// What comes after a type at the beginning.
fn after_type(types: &str) -> Option<&str> {
    let element = types.trim_start_matches('[');
    if let Some(class) = element.strip_prefix('L') {
        let (class, rest) = class.split_once(';')?;
        let is_class = !class.is_empty() && !class.contains(['(', '[']);
        return is_class.then_some(rest);
    }
    element.strip_prefix(['Z', 'B', 'C', 'S', 'I', 'J', 'F', 'D'])
}

fn shape(string: Option<&str>) -> Shape {
    match string {
        Some(string) if is_signature(string) => Shape::Signature,
        Some(string) if is_name(string) => Shape::Name,
        _ => Shape::Wrong,
    }
}

/// Whether it may name a class, method or file. The empty string is the name of a file that is not known.
fn is_name(string: &str) -> bool {
    let is_special = ["<init>", "<clinit>"].contains(&string);
    let is_strange = |c: char| c.is_control() || "()[;/<>".contains(c);
    // The name of a file, and the next string.
    let runs_on = |(at, file): (usize, &str)| {
        let after = string[at + file.len()..].chars().next();
        !matches!(after, None | Some('.' | 'x'))
    };
    let is_cut = string.starts_with('.') || string.ends_with('.') || string.contains("..");
    is_special
        || !string.contains(is_strange) && !is_cut && !string.match_indices(".java").any(runs_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_known() {
        for good in ["()V", "(I[JLa/B;[[Lc/D$1;Z)[La;", "(JJI)V"] {
            assert!(is_signature(good), "{good}");
        }
        for bad in [
            "",
            "(",
            "()",
            "(V)V",
            "()VV",
            "(La)V",
            "()Va",
            "I)V",
            "(I)Vjava.lang",
            "()[",
        ] {
            assert!(!is_signature(bad), "{bad}");
        }
    }

    #[test]
    fn fragments_are_not_trusted_nor_their_neighbours() {
        let strings = [
            "a.B",
            "run",
            "()V",
            "B.java",
            "ime.javalibcore.io",
            "x",
            "(I)V",
            "a.C",
            "go",
        ];
        let found = whole(strings.map(Some).to_vec(), true);
        assert_eq!(
            found,
            ["a.B", "run", "()V", "", "", "", "(I)V", "a.C", "go"]
        );
    }
}
