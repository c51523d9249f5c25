// SPDX-License-Identifier: Apache-2.0
//! Which strings of a trace may be in a file, by what the user agreed to.
//!
//! Each kind of string has a level. A file that is written for a level has placeholders in place of all strings above it:
//! `app.C3`, `m2`, `thread 5`. One string has one placeholder in a file, and nothing of the string is in it. Numbers, such as
//! times, thread ids and addresses, are not changed.

use std::collections::HashMap;

use super::sections::{Losses, ProcessFacts, Strings, APP_VERSION_FACT};

/// What the user agreed to: this and all lower levels may be in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Consent {
    /// Numbers, and the names of the platform's own classes and methods.
    Structure,
    /// Also names of the app's code.
    Names,
    /// Also texts that the program composed while it ran.
    #[default]
    Content,
}

impl Consent {
    /// All levels, the lowest first.
    pub const ALL: [Consent; 3] = [Consent::Structure, Consent::Names, Consent::Content];

    /// Its name in configurations, options, and facts about the process.
    pub const fn name(self) -> &'static str {
        match self {
            Consent::Structure => "structure",
            Consent::Names => "names",
            Consent::Content => "content",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A kind of string in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringKind {
    /// Class, name, signature and source file of a method of the platform.
    PlatformMethod,
    /// The same of any other method.
    AppMethod,
    /// The name of the process, usually the app's package.
    Process,
    /// The name of a thread; `main` is the platform's.
    Thread,
    /// The strings that events name: marks, rules.
    Event,
    /// Why the trace was written.
    Reason,
    /// The value of a further fact about the process that is not listed in [`KEPT_FACTS`]; it may be a path.
    Fact,
    /// Hindsight's own words for what was lost.
    Loss,
}

impl StringKind {
    /// All kinds.
    pub const ALL: [StringKind; 8] = [
        StringKind::PlatformMethod,
        StringKind::AppMethod,
        StringKind::Process,
        StringKind::Thread,
        StringKind::Event,
        StringKind::Reason,
        StringKind::Fact,
        StringKind::Loss,
    ];

    /// The kind for people.
    pub const fn name(self) -> &'static str {
        match self {
            StringKind::PlatformMethod => "methods of the platform",
            StringKind::AppMethod => "all other methods",
            StringKind::Process => "name of the process",
            StringKind::Thread => "names of threads",
            StringKind::Event => "strings that events name: marks, rules",
            StringKind::Reason => "reason of the trace",
            StringKind::Fact => "further facts about the process",
            StringKind::Loss => "what was lost",
        }
    }

    /// The lowest level that such strings need.
    pub const fn level(self) -> Consent {
        match self {
            StringKind::PlatformMethod | StringKind::Loss => Consent::Structure,
            StringKind::AppMethod | StringKind::Process => Consent::Names,
            StringKind::Thread | StringKind::Event | StringKind::Reason | StringKind::Fact => {
                Consent::Content
            }
        }
    }
}

/// The fact about the process that names the level for which the file was written.
pub const CONSENT_FACT: &str = "consent";
/// Facts about the process that Hindsight writes itself, from a fixed set of words and numbers.
pub const KEPT_FACTS: [&str; 6] = [
    "art.release",
    "converted.by",
    "converted.depth",
    "methods.above.4gib",
    "trivial.methods",
    CONSENT_FACT,
];
/// In place of a text for which there is no other placeholder.
pub const REMOVED: &str = "(removed)";

/// Packages of the platform. A program that has classes of its own in them shows their names.
const PLATFORM: [&str; 9] = [
    "android.",
    "com.android.",
    "dalvik.",
    "dev.hindsight.",
    "java.",
    "javax.",
    "jdk.",
    "libcore.",
    "sun.",
];

fn is_platform(class: &str) -> bool {
    PLATFORM.iter().any(|package| class.starts_with(package))
}

/// Memory for a string that has a number, beside its bytes: its place in a hash table that grows, and the allocator's; bytes.
const NUMBERED_BYTES: usize = 192;

/// Replaces the strings of one file that are above a level.
#[derive(Debug)]
pub struct Limit {
    consent: Consent,
    /// Memory that it may still use, bytes.
    room: usize,
    classes: HashMap<String, usize>,
    /// By the number of the class.
    methods: HashMap<(usize, String), usize>,
    threads: HashMap<String, usize>,
}

/// The number of a key, from 1 on, in the order of first use; 0 if there is no room for a new key with a string of this length.
fn number<K: std::hash::Hash + Eq>(
    numbers: &mut HashMap<K, usize>,
    key: K,
    length: usize,
    room: &mut usize,
) -> usize {
    if let Some(number) = numbers.get(&key) {
        return *number;
    }
    let Some(left) = room.checked_sub(NUMBERED_BYTES + length) else {
        return 0;
    };
    *room = left;
    let next = numbers.len() + 1;
    *numbers.entry(key).or_insert(next)
}

impl Limit {
    /// For one file.
    pub fn new(consent: Consent) -> Self {
        Limit::within(consent, usize::MAX)
    }

    /// For one file, with so many bytes of memory. Strings for which there is none share the placeholder with the number 0, and
    /// signatures are left out.
    pub fn within(consent: Consent, room: usize) -> Self {
        Limit {
            consent,
            room,
            classes: HashMap::new(),
            methods: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    fn keeps(&self, kind: StringKind) -> bool {
        kind.level() <= self.consent
    }

    fn class(&mut self, class: &str) -> String {
        match class {
            "" => String::new(),
            class => format!("app.C{}", self.number_of_class(class)),
        }
    }

    fn number_of_class(&mut self, class: &str) -> usize {
        let (classes, room) = (&mut self.classes, &mut self.room);
        number(classes, class.to_owned(), class.len(), room)
    }

    /// A method's class, name, signature as in the dex file, and source file.
    pub fn method(
        &mut self,
        class: &mut String,
        name: &mut String,
        signature: &mut String,
        source_file: &mut String,
    ) {
        if self.keeps(StringKind::AppMethod) {
            return;
        }
        *signature = self.signature(signature);
        if is_platform(class) {
            return;
        }
        let number_of_class = self.number_of_class(class);
        *class = self.class(&class.clone());
        // The platform's names, of constructors and static initializers.
        if !name.is_empty() && !["<init>", "<clinit>"].contains(&name.as_str()) {
            let length = name.len();
            let key = (number_of_class, std::mem::take(name));
            let number = number(&mut self.methods, key, length, &mut self.room);
            *name = format!("m{number}");
        }
        source_file.clear();
    }

    /// The classes in a signature; all of it if it is none, or there is no room for a longer one.
    fn signature(&mut self, signature: &str) -> String {
        let mut replaced = self.replaced_signature(signature);
        replaced.shrink_to_fit();
        let longer = replaced.len().saturating_sub(signature.len());
        match self.room.checked_sub(longer) {
            None => String::new(),
            Some(left) => {
                self.room = left;
                replaced
            }
        }
    }

    fn replaced_signature(&mut self, signature: &str) -> String {
        let mut out = String::with_capacity(signature.len());
        let mut rest = signature;
        while let Some(first) = rest.chars().next() {
            if first != 'L' {
                if !"()[ZBCSIJFDV".contains(first) {
                    return String::new();
                }
                out.push(first);
                rest = &rest[1..];
                continue;
            }
            let Some((class, after)) = rest[1..].split_once(';') else {
                return String::new();
            };
            let class = class.replace('/', ".");
            let shown = match is_platform(&class) {
                true => class,
                false => self.class(&class),
            };
            out.push('L');
            out.push_str(&shown.replace('.', "/"));
            out.push(';');
            rest = after;
        }
        out
    }

    /// The name of a thread.
    pub fn thread(&mut self, name: &mut String) {
        if self.keeps(StringKind::Thread) || ["main", ""].contains(&name.as_str()) {
            return;
        }
        let length = name.len();
        let key = std::mem::take(name);
        let number = number(&mut self.threads, key, length, &mut self.room);
        *name = format!("thread {number}");
    }

    /// The facts about the process. They say for which level the file is written, if strings are replaced.
    pub fn process(&mut self, process: &mut ProcessFacts) {
        if !self.keeps(StringKind::Process) && !process.name.is_empty() {
            process.name = "process".to_owned();
        }
        if !self.keeps(StringKind::Reason) && !process.reason.is_empty() {
            process.reason = REMOVED.to_owned();
        }
        if self.consent == Consent::Content {
            return;
        }
        // Not even the names of others are known to be harmless.
        let version = process
            .app_version()
            .filter(|_| self.keeps(StringKind::Process));
        let is_kept = |key: &String| KEPT_FACTS.contains(&key.as_str()) && key != CONSENT_FACT;
        process.extra.retain(|(key, _)| is_kept(key));
        // Only as a number: the process may have put any text there.
        let version = version.map(|version| (APP_VERSION_FACT.to_owned(), version.to_string()));
        process.extra.extend(version);
        let level = self.consent.name().to_owned();
        process.extra.push((CONSENT_FACT.to_owned(), level));
    }

    /// The strings that events name, by their numbers.
    pub fn strings(&mut self, strings: &mut Strings) {
        if self.keeps(StringKind::Event) {
            return;
        }
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut room = usize::MAX;
        for string in &mut strings.strings {
            let key = std::mem::take(string);
            *string = format!("text {}", number(&mut known, key, 0, &mut room));
        }
    }

    /// What was lost. A converted trace has the damage of the original there, with the names of its threads.
    pub fn losses(&mut self, losses: &mut Losses) {
        if self.keeps(StringKind::Thread) {
            return;
        }
        for (reason, _) in &mut losses.counts {
            if reason.starts_with("damaged: ") {
                *reason = "damaged parts of the original file".to_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(consent: Consent, methods: [(&str, &str, &str); 4]) -> Vec<String> {
        let mut limit = Limit::new(consent);
        let of = |(class, name, signature): (&str, &str, &str)| {
            let [mut class, mut name, mut signature] = [class, name, signature].map(str::to_owned);
            let mut file = "Secret.java".to_owned();
            limit.method(&mut class, &mut name, &mut signature, &mut file);
            format!("{class}.{name}{signature} {file}")
        };
        methods.map(of).to_vec()
    }

    #[test]
    fn names_of_the_app_have_one_placeholder_each_and_the_platforms_stay() {
        let methods = [
            ("com.app.A", "open", "(Lcom/app/B;[I)Ljava/lang/String;"),
            ("com.app.B", "<init>", "()V"),
            ("android.os.Looper", "loop", "(Lcom/app/A;)V"),
            ("com.app.A", "open", "nonsense"),
        ];
        let structure = limited(Consent::Structure, methods);
        assert_eq!(
            structure,
            [
                "app.C2.m1(Lapp/C1;[I)Ljava/lang/String; ",
                "app.C1.<init>()V ",
                "android.os.Looper.loop(Lapp/C2;)V Secret.java",
                "app.C2.m1 ",
            ]
        );
        let names = limited(Consent::Names, methods);
        assert_eq!(
            names[0],
            "com.app.A.open(Lcom/app/B;[I)Ljava/lang/String; Secret.java"
        );
    }

    #[test]
    fn texts_need_the_highest_level() {
        let texts = |consent| {
            let mut limit = Limit::new(consent);
            let mut threads = ["main", "Alice's upload", "b", "b"].map(str::to_owned);
            threads.iter_mut().for_each(|name| limit.thread(name));
            let strings = ["chat with Bob", "x", "x"].map(str::to_owned).to_vec();
            let mut strings = Strings { strings };
            limit.strings(&mut strings);
            let mut process = ProcessFacts {
                name: "com.app".into(),
                reason: "a message".into(),
                extra: vec![
                    ("art.release".into(), "10".into()),
                    ("home".into(), "/data/alice".into()),
                    (APP_VERSION_FACT.into(), "4294967298".into()),
                ],
                ..ProcessFacts::default()
            };
            limit.process(&mut process);
            let extra: Vec<String> = process
                .extra
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            (
                threads.join(","),
                strings.strings.join(","),
                format!("{},{},{}", process.name, process.reason, extra.join(",")),
            )
        };
        let removed = ("main,thread 1,thread 2,thread 2", "text 1,text 2,text 2");
        for (consent, facts) in [
            (
                Consent::Structure,
                "process,(removed),art.release=10,consent=structure",
            ),
            (
                Consent::Names,
                "com.app,(removed),art.release=10,app.version=4294967298,consent=names",
            ),
        ] {
            let (threads, strings, process) = texts(consent);
            assert_eq!((threads.as_str(), strings.as_str()), removed);
            assert_eq!(process, facts);
        }
        let (threads, strings, process) = texts(Consent::Content);
        assert_eq!(threads, "main,Alice's upload,b,b");
        assert_eq!(strings, "chat with Bob,x,x");
        assert_eq!(
            process,
            "com.app,a message,art.release=10,home=/data/alice,app.version=4294967298"
        );
    }

    #[test]
    fn a_version_that_is_no_number_needs_the_highest_level() {
        for (value, version) in [
            ("12", Some(12)),
            ("0", None),
            ("9223372036854775808", None),
            ("12 of Alice", None),
        ] {
            let mut process = ProcessFacts {
                extra: vec![(APP_VERSION_FACT.into(), value.into())],
                ..ProcessFacts::default()
            };
            assert_eq!(process.app_version(), version, "{value}");
            Limit::new(Consent::Names).process(&mut process);
            assert_eq!(process.app_version(), version, "{value}");
            let facts = process.extra.len();
            assert_eq!(facts, 1 + usize::from(version.is_some()), "{value}");
        }
    }
}
