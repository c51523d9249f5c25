// SPDX-License-Identifier: Apache-2.0
//! Names before R8 or ProGuard shortened them: `mapping.txt`.

use std::path::Path;

use hashbrown::HashMap;
use proguard::{ProguardMapping, ProguardRecord};

use crate::error::Error;
use crate::methods::Method;
use crate::model::Trace;
use crate::{file, signature};

/// More alternatives than this are not written into a name.
const MAX_ALTERNATIVES: usize = 3;

/// The contents of a `mapping.txt`.
///
/// Methods that R8 inlined have no trace points of their own. [`Method::inlined`] lists those inlined into a
/// method; the trace does not record which of them ran in a call.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// By their shortened names.
    classes: HashMap<String, Class>,
}

#[derive(Clone, Debug, Default)]
struct Class {
    original: String,
    /// By their shortened names.
    methods: HashMap<String, Vec<Original>>,
}

/// A method before it was shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Original {
    name: String,
    /// Of a method that was moved here from another class.
    class: Option<String>,
    parameters: Vec<String>,
    returned: String,
    /// The methods inlined into it: `class.name`.
    inlined: Vec<String>,
}

/// Counts of the names that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deobfuscated {
    /// Methods that have their original names now.
    pub methods: u64,
    /// Ambiguous ones of these: all possible names are given, with `|` between them.
    pub ambiguous: u64,
}

impl Mapping {
    /// Reads a `mapping.txt`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(path, &file::read(path)?)
    }

    /// Parses the bytes of a `mapping.txt`; `path` is its name in errors. Malformed lines are skipped, as R8's own retrace
    /// does; a file without any class is an error.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let mut mapping = Mapping::default();
        let mut class: Option<String> = None;
        // Records with the same lines of the same method: the inlined methods, then the method around them.
        let mut group = Group::default();
        for record in ProguardMapping::new(bytes).iter() {
            let Ok(record) = record else { continue };
            match record {
                ProguardRecord::Class {
                    original,
                    obfuscated,
                } => {
                    group.end(class.as_ref(), &mut mapping);
                    class = Some(obfuscated.to_owned());
                    mapping
                        .classes
                        .entry(obfuscated.to_owned())
                        .or_default()
                        .original = original.to_owned();
                }
                ProguardRecord::Method {
                    ty,
                    original,
                    obfuscated,
                    arguments,
                    original_class,
                    line_mapping,
                } => {
                    let lines = line_mapping.and_then(|lines| lines.startline.zip(lines.endline));
                    if group.name != obfuscated || group.lines != lines || lines.is_none() {
                        group.end(class.as_ref(), &mut mapping);
                        group.name = obfuscated.to_owned();
                        group.lines = lines;
                    }
                    group.records.push(Original {
                        name: original.to_owned(),
                        class: original_class.map(str::to_owned),
                        parameters: arguments
                            .split(',')
                            .map(|a| a.trim().to_owned())
                            .filter(|a| !a.is_empty())
                            .collect(),
                        returned: ty.to_owned(),
                        inlined: Vec::new(),
                    });
                }
                _ => {}
            }
        }
        group.end(class.as_ref(), &mut mapping);
        if mapping.classes.is_empty() {
            return Err(Error::Line {
                path: path.to_owned(),
                line: 1,
                what: "there is no class in it ('original.Name -> short.Name:'): is this the mapping.txt of R8 or ProGuard?"
                    .to_owned(),
            });
        }
        Ok(mapping)
    }

    /// Number of classes in it.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// The original name of a class, or of an array of it; the name itself if it has none.
    fn class(&self, name: &str) -> String {
        let element = name.trim_end_matches("[]");
        match self.classes.get(element) {
            Some(class) => class.original.clone() + &name[element.len()..],
            None => name.to_owned(),
        }
    }

    /// Gives a method its original name. Returns whether it has got another one, and whether it is ambiguous.
    fn apply(&self, method: &mut Method) -> (bool, bool) {
        let before = (method.class.clone(), method.name.clone());
        let types = signature::types(&method.signature).map(|(parameters, returned)| {
            let parameters: Vec<String> = parameters.iter().map(|p| self.class(p)).collect();
            (parameters, self.class(&returned))
        });
        if let Some((parameters, returned)) = &types {
            method.signature = descriptors(parameters, returned);
        }
        let Some(class) = self.classes.get(&method.class) else {
            return (false, false);
        };
        method.class.clone_from(&class.original);
        let all: &[Original] = class.methods.get(&method.name).map_or(&[], Vec::as_slice);
        let mut fitting: Vec<&Original> = all
            .iter()
            .filter(|original| {
                types.as_ref().is_none_or(|(parameters, returned)| {
                    (&original.parameters, &original.returned) == (parameters, returned)
                })
            })
            .collect();
        if fitting.is_empty() {
            // R8 may have changed the signature.
            fitting = all.iter().collect();
        }
        let mut ambiguous = false;
        if let Some(&first) = fitting.first() {
            let mut names: Vec<&str> = fitting.iter().map(|o| o.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            ambiguous = names.len() > 1;
            let more = names.len() > MAX_ALTERNATIVES;
            names.truncate(MAX_ALTERNATIVES);
            method.name = names.join("|") + if more { "|…" } else { "" };
            if fitting.len() == 1 {
                method.signature = descriptors(&first.parameters, &first.returned);
                method.inlined.clone_from(&first.inlined);
                if let Some(class) = &first.class {
                    method.class.clone_from(class);
                }
            }
        }
        (
            before != (method.class.clone(), method.name.clone()),
            ambiguous,
        )
    }
}

fn descriptors(parameters: &[String], returned: &str) -> String {
    let parameters: String = parameters
        .iter()
        .map(|p| signature::descriptor(p))
        .collect();
    format!("({parameters}){}", signature::descriptor(returned))
}

#[derive(Default)]
struct Group {
    name: String,
    lines: Option<(usize, usize)>,
    records: Vec<Original>,
}

impl Group {
    /// The last record is the method; the ones before it were inlined into it.
    fn end(&mut self, class: Option<&String>, mapping: &mut Mapping) {
        let Some(mut method) = self.records.pop() else {
            return;
        };
        let inlined: Vec<Original> = std::mem::take(&mut self.records);
        let Some(class) = class.and_then(|class| mapping.classes.get_mut(class)) else {
            return;
        };
        // The same method comes once for each part of it.
        let methods = class.methods.entry(self.name.clone()).or_default();
        let same = methods.iter().position(|m| {
            (&m.name, &m.class, &m.parameters, &m.returned)
                == (
                    &method.name,
                    &method.class,
                    &method.parameters,
                    &method.returned,
                )
        });
        let into = match same {
            Some(same) => &mut methods[same].inlined,
            None => &mut method.inlined,
        };
        for frame in inlined {
            let of = frame.class.as_ref().unwrap_or(&class.original);
            let name = format!("{of}.{}", frame.name);
            if !into.contains(&name) {
                into.push(name);
            }
        }
        if same.is_none() {
            methods.push(method);
        }
    }
}

impl Trace {
    /// Gives the methods the names that they had before R8 or ProGuard shortened them.
    pub fn deobfuscate(&mut self, mapping: &Mapping) -> Deobfuscated {
        let mut done = Deobfuscated::default();
        for method in self.methods.iter_mut() {
            let (renamed, ambiguous) = mapping.apply(method);
            done.methods += u64::from(renamed);
            done.ambiguous += u64::from(ambiguous);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPING: &str = r#"# compiler: R8
# compiler_version: 8.2.33
# {"id":"com.android.tools.r8.mapping","version":"2.2"}
com.example.notes.NoteStore -> a.b:
# {"id":"sourceFile","fileName":"NoteStore.java"}
    java.util.Map notes -> a
    1:4:void <init>():17:20 -> <init>
    1:3:com.example.notes.Note find(int):30:32 -> a
    4:4:void com.example.notes.Lock.lock():99:99 -> a
    4:4:com.example.notes.Note find(int):33 -> a
    5:5:void com.example.notes.Lock.unlock():104:104 -> a
    5:5:com.example.notes.Note find(int):34 -> a
    void saveAll(com.example.notes.Note[],long) -> a
    1:1:void clear():50:50 -> b
    2:2:void drop():60:60 -> b
com.example.notes.Note -> a.c:
    void moved() -> x
    void com.example.other.Other.came():7:7 -> y
"#;

    fn mapping() -> Mapping {
        Mapping::parse(Path::new("mapping.txt"), MAPPING.as_bytes()).unwrap()
    }

    fn method(class: &str, name: &str, signature: &str) -> Method {
        Method {
            class: class.into(),
            name: name.into(),
            signature: signature.into(),
            ..Method::default()
        }
    }

    fn applied(class: &str, name: &str, signature: &str) -> (Method, bool) {
        let mut method = method(class, name, signature);
        let (_, ambiguous) = mapping().apply(&mut method);
        (method, ambiguous)
    }

    #[test]
    fn overloads_are_told_apart_by_their_signatures() {
        let (find, ambiguous) = applied("a.b", "a", "(I)La/c;");
        assert_eq!(find.full_name(), "com.example.notes.NoteStore.find");
        assert_eq!(find.signature, "(I)Lcom/example/notes/Note;");
        assert!(!ambiguous);
        let (save, _) = applied("a.b", "a", "([La/c;J)V");
        assert_eq!(save.full_name(), "com.example.notes.NoteStore.saveAll");
        assert_eq!(save.inlined, [""; 0]);
    }

    #[test]
    fn what_was_inlined_is_listed_once() {
        let (find, _) = applied("a.b", "a", "(I)La/c;");
        assert_eq!(
            find.inlined,
            [
                "com.example.notes.Lock.lock",
                "com.example.notes.Lock.unlock"
            ]
        );
    }

    #[test]
    fn where_several_methods_fit_all_are_named() {
        let (both, ambiguous) = applied("a.b", "b", "()V");
        assert_eq!(both.name, "clear|drop");
        assert!(ambiguous);
        // Nothing is known of its signature.
        let (either, ambiguous) = applied("a.b", "a", "");
        assert_eq!(either.name, "find|saveAll");
        assert!(ambiguous);
    }

    #[test]
    fn methods_of_other_classes_and_kept_names_stay() {
        let (kept, _) = applied("a.b", "onClick", "(La/c;)V");
        assert_eq!(kept.full_name(), "com.example.notes.NoteStore.onClick");
        assert_eq!(kept.signature, "(Lcom/example/notes/Note;)V");
        let (other, _) = applied("android.os.Looper", "loop", "()V");
        assert_eq!(other, method("android.os.Looper", "loop", "()V"));
        let (came, _) = applied("a.c", "y", "()V");
        assert_eq!(came.full_name(), "com.example.other.Other.came");
    }

    #[test]
    fn a_file_without_classes_is_refused() {
        for nonsense in ["", "# compiler: R8\n", "\u{0}\u{1}", "SLOW"] {
            let error = Mapping::parse(Path::new("m.txt"), nonsense.as_bytes()).unwrap_err();
            assert!(
                error.to_string().starts_with("m.txt:1: there is no class"),
                "{error}"
            );
        }
    }
}
