// SPDX-License-Identifier: Apache-2.0
//! From a path in a module to the module that defines the item.

use std::collections::HashSet;

use super::tree::{Binding, Crate};

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Module(usize),
    Item {
        /// The defining module.
        module: usize,
        name: String,
        /// A variant, or an associated function or constant.
        member: Option<String>,
    },
}

/// Names that are being looked up, for imports that lead back to themselves.
type Pending = HashSet<(usize, String)>;

impl Crate {
    /// The meanings of a path in a module; none for an item of another crate.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Vec<Target> {
        self.resolve_in(module, path, &mut Pending::new())
    }

    fn resolve_in(&self, module: usize, path: &[String], pending: &mut Pending) -> Vec<Target> {
        let Some((first, mut rest)) = path.split_first() else {
            return vec![Target::Module(module)];
        };
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(module)],
            "super" => {
                let mut at = self.modules[module].parent;
                while let Some(("super", more)) =
                    rest.split_first().map(|(name, more)| (name.as_str(), more))
                {
                    at = at.and_then(|at| self.modules[at].parent);
                    rest = more;
                }
                at.map(Target::Module).into_iter().collect()
            }
            name => self.look_up(module, name, pending),
        };
        for (index, name) in rest.iter().enumerate() {
            // The rest of the path is in a module, if the name means one.
            if targets
                .iter()
                .any(|target| matches!(target, Target::Module(_)))
            {
                targets.retain(|target| matches!(target, Target::Module(_)));
            }
            let last = index + 1 == rest.len();
            targets = targets
                .into_iter()
                .flat_map(|target| match target {
                    Target::Module(module) => {
                        let found = self.look_up(module, name, pending);
                        if found.is_empty() && last && self.modules[module].globs.is_empty() {
                            // Made by a macro, since the compiler knows it.
                            vec![item(module, name)]
                        } else {
                            found
                        }
                    }
                    Target::Item {
                        module,
                        name: of,
                        member,
                    } => vec![Target::Item {
                        module,
                        name: of,
                        member: member.or_else(|| Some(name.clone())),
                    }],
                })
                .collect();
        }
        targets
    }

    /// The meanings of a name in a module.
    fn look_up(&self, module: usize, name: &str, pending: &mut Pending) -> Vec<Target> {
        if !pending.insert((module, name.to_owned())) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for binding in self.modules[module].names.get(name).into_iter().flatten() {
            match binding {
                Binding::Module(child) => found.push(Target::Module(*child)),
                Binding::Item => found.push(item(module, name)),
                Binding::Import(path) => found.extend(self.resolve_in(module, path, pending)),
            }
        }
        if found.is_empty() {
            for glob in &self.modules[module].globs {
                for target in self.resolve_in(module, glob, pending) {
                    if let Target::Module(target) = target {
                        found.extend(self.look_up(target, name, pending));
                    }
                }
            }
        }
        pending.remove(&(module, name.to_owned()));
        found
    }
}

fn item(module: usize, name: &str) -> Target {
    Target::Item {
        module,
        name: name.to_owned(),
        member: None,
    }
}
