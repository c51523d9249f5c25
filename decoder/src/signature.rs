// SPDX-License-Identifier: Apache-2.0
//! Signatures, as dex files write them and as people do.

/// The types of a signature such as `(J[Ljava/lang/String;)V`, as in Java, with packages: parameters, and return type.
/// `None` if it is no signature.
pub(crate) fn types(signature: &str) -> Option<(Vec<String>, String)> {
    let (parameters, returned) = signature.strip_prefix('(')?.split_once(')')?;
    let mut rest = parameters;
    let mut types = Vec::new();
    while !rest.is_empty() {
        let (name, after) = one(rest)?;
        types.push(name);
        rest = after;
    }
    let (returned, after) = one(returned)?;
    after.is_empty().then_some((types, returned))
}

/// The first type, and what follows it.
fn one(descriptor: &str) -> Option<(String, &str)> {
    let element = descriptor.trim_start_matches('[');
    let arrays = descriptor.len() - element.len();
    // The limit of the dex format.
    if arrays > 255 {
        return None;
    }
    let (name, after) = match element.strip_prefix('L') {
        Some(class) => {
            let (class, after) = class.split_once(';')?;
            (class.replace('/', "."), after)
        }
        None => {
            let name = match element.chars().next()? {
                'Z' => "boolean",
                'B' => "byte",
                'C' => "char",
                'S' => "short",
                'I' => "int",
                'J' => "long",
                'F' => "float",
                'D' => "double",
                'V' => "void",
                _ => return None,
            };
            (name.to_owned(), &element[1..])
        }
    };
    Some((name + &"[]".repeat(arrays), after))
}

/// A type of Java, as a dex file writes it: `long[]` becomes `[J`.
pub(crate) fn descriptor(name: &str) -> String {
    let element = name.trim_end_matches("[]");
    let arrays = (name.len() - element.len()) / 2;
    let primitive = match element {
        "boolean" => "Z",
        "byte" => "B",
        "char" => "C",
        "short" => "S",
        "int" => "I",
        "long" => "J",
        "float" => "F",
        "double" => "D",
        "void" => "V",
        class => return format!("{}L{};", "[".repeat(arrays), class.replace('.', "/")),
    };
    "[".repeat(arrays) + primitive
}

/// A class without its package and outer classes: `java.util.Map$Entry[]` becomes `Entry[]`.
pub(crate) fn short(name: &str) -> &str {
    let start = name.rfind(['.', '$']).map_or(0, |at| at + 1);
    match &name[start..] {
        // The number of an anonymous class means nothing without its outer class.
        rest if rest.starts_with(|c: char| c.is_ascii_digit()) || rest.is_empty() => {
            &name[name.rfind('.').map_or(0, |at| at + 1)..]
        }
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_descriptors_are_each_others_inverse() {
        let signature = "(J[Ljava/lang/String;[[IZLjava/util/Map$Entry;)[D";
        let (parameters, returned) = types(signature).unwrap();
        assert_eq!(
            parameters,
            [
                "long",
                "java.lang.String[]",
                "int[][]",
                "boolean",
                "java.util.Map$Entry"
            ]
        );
        assert_eq!(returned, "double[]");
        let again: String = parameters.iter().map(|p| descriptor(p)).collect();
        assert_eq!(format!("({again}){}", descriptor(&returned)), signature);
    }

    #[test]
    fn nonsense_is_no_signature() {
        let brackets = format!("({}I)V", "[".repeat(300));
        for nonsense in [
            "",
            "V",
            "(",
            "(Q)V",
            "([",
            "(Ljava/lang",
            "()",
            "()VV",
            &brackets,
        ] {
            assert_eq!(types(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn short_names_are_those_that_a_programmer_gave() {
        assert_eq!(short("java.util.Map$Entry"), "Entry");
        assert_eq!(short("int[]"), "int[]");
        assert_eq!(short("a.b.Outer$1"), "Outer$1");
        assert_eq!(short("a.b.Outer$"), "Outer$");
    }
}
