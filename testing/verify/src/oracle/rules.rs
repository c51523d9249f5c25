// SPDX-License-Identifier: Apache-2.0
//! Permitted differences between the two tracers; `testing/verify/README.md` has the reasons.

use std::cell::RefCell;
use std::collections::HashMap;

use super::compare::{Code, Missing, Rules};
use super::inlining::{Body, Fate, Inlined};
use super::programs::{is_of_proxy, Exempt};
use super::sequences::{Name, Names};
use crate::pretty::pretty;

/// The rules of a comparison.
pub(super) struct Permissions<'a> {
    names: &'a Names,
    /// Indexed by the number of the name.
    known: Vec<Known>,
    /// Whether the code is compiled, so that the compiler may have replaced calls.
    compiled: bool,
    /// The inlined calls of the boot image, and of the program.
    inlined: &'a [&'a Inlined],
    pretty: RefCell<HashMap<Name, Option<String>>>,
}

/// Properties of a method that the rules need at every call.
struct Known {
    /// The compiler replaces its calls, or they bypass the place that would record them.
    exempt: bool,
    /// Calls may be added inside of it.
    adds: bool,
    /// It has no trace points (`None`: in some of the jars).
    left_out: Option<bool>,
}

/// The bodies of the second table are numbered after the first table's.
const TABLE: u32 = 1 << 30;

impl<'a> Permissions<'a> {
    /// There are at most two tables of inlined calls.
    pub(super) fn new(
        names: &'a Names,
        exempt: &'a Exempt,
        compiled: bool,
        inlined: &'a [&'a Inlined],
    ) -> Permissions<'a> {
        let known = names.all().map(|name| Known {
            exempt: exempt.is_critical_native(name) || exempt.is_intrinsic(name),
            adds: name.contains(".<clinit>(") || name == COPY_OF_OBJECTS,
            left_out: exempt.is_left_out(name),
        });
        Permissions {
            names,
            known: known.collect(),
            compiled,
            inlined,
            pretty: RefCell::default(),
        }
    }

    /// The method in ART's notation.
    fn with_pretty<T>(&self, name: Name, look: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut known = self.pretty.borrow_mut();
        let text = known
            .entry(name)
            .or_insert_with(|| pretty(self.names.name(name)));
        look(text.as_deref()?)
    }

    /// The same as [`Rules::missing`], if the method has trace points.
    fn may_be_missing(&self, name: Name, caller: Code) -> Missing {
        if caller == Code::Replaced || self.known[name as usize].exempt {
            return Missing::May(Code::Replaced);
        }
        let Code::Body(body) = caller else {
            return Missing::No;
        };
        let Some((table, body, offset)) = self.table(body) else {
            return Missing::No;
        };
        let code = |inner| {
            if table.is_pattern(inner) {
                Code::Replaced
            } else {
                Code::Body(inner + offset)
            }
        };
        match self.with_pretty(name, |callee| Some(table.fate(body, callee))) {
            Some(Fate::Inlined(inner)) => Missing::Likely(code(inner)),
            Some(Fate::Both(inner)) => Missing::May(code(inner)),
            Some(Fate::Called) | None => Missing::No,
        }
    }

    fn table(&self, body: Body) -> Option<(&Inlined, Body, u32)> {
        let index = body / TABLE;
        let table = self.inlined.get(index as usize)?;
        Some((table, body % TABLE, index * TABLE))
    }
}

/// The method whose code another one runs: `ClassLinker::CreateProxyConstructor` copies the code of `Proxy`'s.
fn code_of(method: &str) -> Option<&'static str> {
    let constructs = method.split('(').next()?.ends_with(".<init>");
    (constructs && is_of_proxy(method))
        .then_some("java.lang.reflect.Proxy.<init>(Ljava/lang/reflect/InvocationHandler;)V")
}

const COPY_OF_OBJECTS: &str =
    "java.lang.System.arraycopy(Ljava/lang/Object;ILjava/lang/Object;II)V";

/// Whether `InstructionSimplifierVisitor::SimplifySystemArrayCopy` puts calls of the method in place of
/// [`COPY_OF_OBJECTS`].
fn is_copy_of_primitives(method: &str) -> bool {
    let Some(parameters) = method.strip_prefix("java.lang.System.arraycopy([") else {
        return false;
    };
    "ZBCSIJFD".chars().any(|of| {
        let rest = parameters.strip_prefix(of);
        rest.and_then(|rest| rest.strip_prefix("I["))
            .and_then(|rest| rest.strip_prefix(of))
            == Some("II)V")
    })
}

/// Whether the copies of primitive arrays call the method: `arraycopyIntUnchecked`.
fn is_part_of_copy(method: &str) -> bool {
    let name = method.split('(').next().unwrap_or(method);
    name.strip_prefix("java.lang.System.arraycopy")
        .is_some_and(|rest| rest.ends_with("Unchecked"))
}

impl Rules for Permissions<'_> {
    fn code(&self, name: Name) -> Code {
        let find = |method: &str| {
            let mut tables = self.inlined.iter().zip(0_u32..);
            tables.find_map(|(table, index)| Some(table.compiled(method)? + index * TABLE))
        };
        if self.inlined.is_empty() {
            return Code::Unknown;
        }
        let known = match code_of(self.names.name(name)) {
            Some(method) => pretty(method).and_then(|method| find(&method)),
            None => self.with_pretty(name, find),
        };
        known.map_or(Code::Unknown, Code::Body)
    }

    fn missing(&self, name: Name, caller: Code) -> Missing {
        let usually = self.may_be_missing(name, caller);
        let left_out = self.known[name as usize].left_out;
        if left_out == Some(false) {
            return usually;
        }
        let code = match usually {
            Missing::No => self.code(name),
            Missing::May(code) | Missing::Likely(code) | Missing::Must(code) => code,
        };
        if left_out.is_some() {
            Missing::Must(code)
        } else {
            Missing::May(code)
        }
    }

    fn adds(&self, inside: Name) -> bool {
        self.known[inside as usize].adds
    }

    // ART's tracer doesn't see native static methods while their class is being initialized: until it is, calls
    // go through the resolution trampoline, straight to the code, past the tracer's stub.
    //
    // The callees of a copy of primitive arrays, in place of one of objects (see `is_copy_of_primitives`).
    fn may_add(&self, name: Name, inside: Name) -> bool {
        if self.known[name as usize].left_out == Some(true) {
            return false;
        }
        if self.names.name(inside) == COPY_OF_OBJECTS {
            return is_part_of_copy(self.names.name(name));
        }
        let class = |name| self.names.name(name).split('(').next()?.rsplit_once('.');
        match (class(name), class(inside)) {
            (Some((of, _)), Some((initialized, "<clinit>"))) => of == initialized,
            _ => false,
        }
    }

    // ART's tracer lists the interface's method in place of a proxy's, so the proxy's method has no name.
    //
    // The compiler replaces `arraycopy` of objects by the one of primitives where it knows the arrays' types.
    fn alias(&self, name: Name, recorded: Name) -> bool {
        let (name, recorded) = (self.names.name(name), self.names.name(recorded));
        name.starts_with("<method ") && is_of_proxy(recorded)
            || self.compiled && name == COPY_OF_OBJECTS && is_copy_of_primitives(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trivial::Trivial;

    const LOG: &str = "\
dex2oat I 11-21 17:08:43 1 1 optimizing_compiler.cc:876] Building void a.A.a()
dex2oat I 11-21 17:08:43 1 1 inliner.cc:479]  Try inlinining call: int a.B.b()
dex2oat I 11-21 17:08:43 1 1 inliner.cc:1533] Success: int a.B.b()
dex2oat I 11-21 17:08:43 1 1 optimizing_compiler.cc:876] Building void \
java.lang.reflect.Proxy.<init>(java.lang.reflect.InvocationHandler)
dex2oat I 11-21 17:08:43 1 1 inliner.cc:479]  Try inlinining call: void java.lang.Object.<init>()
dex2oat I 11-21 17:08:43 1 1 inliner.cc:1463] Success: Successfully replaced pattern of invoke void \
java.lang.Object.<init>()
";

    /// Asks the rules about methods, with [`LOG`] as the inlining of the program.
    fn ask(names: &[&str], question: impl Fn(&dyn Rules, &[Name])) {
        let mut all = Names::default();
        let numbers: Vec<Name> = names.iter().map(|name| all.number_of(name)).collect();
        let exempt = Exempt::for_tests(&["a.Math.abs(I)I"], &["a.System.nanoTime"]);
        let boot = Inlined::default();
        let program = Inlined::read(LOG.as_bytes(), None).unwrap();
        let tables = [&boot, &program];
        question(&Permissions::new(&all, &exempt, true, &tables), &numbers);
    }

    #[test]
    fn inlined_calls_may_be_missing_where_they_were_inlined() {
        ask(&["a.A.a()V", "a.B.b()I", "a.C.c()V"], |rules, names| {
            let [a, b, c] = names else { unreachable!() };
            let code = rules.code(*a);
            assert!(matches!(
                rules.missing(*b, code),
                Missing::Likely(Code::Body(_))
            ));
            assert_eq!(rules.missing(*c, code), Missing::No);
            assert_eq!(rules.code(*c), Code::Unknown);
            assert_eq!(rules.missing(*b, rules.code(*c)), Missing::No);
        });
    }

    #[test]
    fn a_proxy_is_constructed_by_the_code_of_its_base_class() {
        let constructor = "a.$Proxy0.<init>(Ljava/lang/reflect/InvocationHandler;)V";
        ask(
            &[constructor, "java.lang.Object.<init>()V"],
            |rules, names| {
                let code = rules.code(names[0]);
                assert_eq!(
                    rules.missing(names[1], code),
                    Missing::Likely(Code::Replaced)
                );
            },
        );
    }

    #[test]
    fn what_the_compiler_replaces_may_be_missing_everywhere() {
        let names = ["a.Math.abs(I)I", "a.System.nanoTime()J", "a.Math.abs(J)J"];
        ask(&names, |rules, names| {
            let replaced = Missing::May(Code::Replaced);
            assert_eq!(rules.missing(names[0], Code::Unknown), replaced);
            assert_eq!(rules.missing(names[1], Code::Unknown), replaced);
            assert_eq!(rules.missing(names[2], Code::Unknown), Missing::No);
            assert_eq!(rules.missing(names[2], Code::Replaced), replaced);
        });
    }

    #[test]
    fn a_copy_of_objects_may_be_one_of_primitives() {
        let names = [
            COPY_OF_OBJECTS,
            "java.lang.System.arraycopy([II[III)V",
            "java.lang.System.arraycopy([II[JII)V",
            "java.lang.System.arraycopyIntUnchecked([II[III)V",
            "java.lang.System.nanoTime()J",
        ];
        ask(&names, |rules, names| {
            assert!(rules.alias(names[0], names[1]));
            assert!(!rules.alias(names[1], names[0]));
            assert!(!rules.alias(names[0], names[2]));
            assert!(!rules.alias(names[0], names[4]));
            assert!(rules.may_add(names[3], names[0]));
            assert!(!rules.may_add(names[4], names[0]));
            assert!(!rules.may_add(names[3], names[4]));
        });
    }

    #[test]
    fn a_trivial_method_must_be_missing() {
        let mut names = Names::default();
        let [a, b] = ["a.A.get()I", "a.A.f()I"].map(|name| names.number_of(name));
        let mut exempt = Exempt::for_tests(&[], &[]);
        exempt.trivial = Some(Trivial::for_tests(&["a.A.get()I"]));
        let rules = Permissions::new(&names, &exempt, true, &[]);
        assert_eq!(
            rules.missing(a, Code::Unknown),
            Missing::Must(Code::Unknown)
        );
        assert_eq!(rules.missing(b, Code::Unknown), Missing::No);
    }

    #[test]
    fn additional_calls_are_of_the_class_that_is_initialized() {
        let names = ["a.A.<clinit>()V", "a.A.nativeSize()J", "a.B.nativeSize()J"];
        ask(&names, |rules, names| {
            assert!(rules.adds(names[0]) && !rules.adds(names[1]));
            assert!(rules.may_add(names[1], names[0]));
            assert!(!rules.may_add(names[2], names[0]));
            assert!(!rules.may_add(names[1], names[2]));
        });
    }
}
