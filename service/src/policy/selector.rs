// SPDX-License-Identifier: Apache-2.0
//! Which processes a part of the policy is about.

/// Names of packages or processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Package {
    /// All names that begin so: `com.example.*` without the star. Empty: all.
    Prefix(String),
    /// This name.
    Exact(String),
}

impl Package {
    /// From a name, or a name that ends in `.*`; `*` is all names.
    ///
    /// # Errors
    /// If it is empty, too long, or has characters that no name of a process has; the text says which are allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = match text.strip_suffix('*') {
            Some("") => return Ok(Package::Prefix(String::new())),
            Some(prefix) => prefix.strip_suffix('.').unwrap_or(""),
            None => text,
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-:/@".contains(c);
        if name.is_empty() || text.len() > 256 || !name.chars().all(is_allowed) {
            return Err("not a name of a package or process, such as \"com.example.notes\" or \
                        \"com.example.notes:sync\", nor a pattern, such as \"com.example.*\" or \"*\""
                .into());
        }
        Ok(match text.strip_suffix('*') {
            Some(prefix) => Package::Prefix(prefix.into()),
            None => Package::Exact(text.into()),
        })
    }

    /// Whether any process can have such a name: none has an empty part.
    pub(super) fn can_match(&self) -> bool {
        let name = match self {
            Package::Prefix(prefix) if prefix.is_empty() => return true,
            Package::Prefix(prefix) => prefix.strip_suffix('.').unwrap_or(prefix),
            Package::Exact(exact) => exact,
        };
        !name.split(['.', ':']).any(str::is_empty)
    }

    /// Whether it is this process. A name of a package stands for all processes of the package (`package:process`).
    fn matches(&self, name: &str) -> bool {
        match self {
            Package::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Package::Exact(exact) => {
                let rest = name.strip_prefix(exact.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            }
        }
    }

    fn rank(&self) -> (bool, usize) {
        match self {
            Package::Prefix(prefix) => (false, prefix.len()),
            Package::Exact(exact) => (true, exact.len()),
        }
    }
}

/// User ids of one Android user: a user id is the user's number times this, and the app id.
pub const UIDS_OF_A_USER: u32 = 100_000;
/// The first app id of apps; lower ones are the system's.
pub const FIRST_APP: u32 = 10_000;

/// Processes, by user id or app id, by name, or by both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The user id, by the kernel's account.
    pub uid: Option<u32>,
    /// The app id, which an app has in all Android users and profiles; by the kernel's account.
    pub app_id: Option<u32>,
    /// The name, by the process's own account.
    pub package: Option<Package>,
}

impl Selector {
    /// Whether it is this process.
    pub fn matches(&self, uid: u32, name: &str) -> bool {
        let is_name = |package: &Package| package.matches(name);
        self.may_be(uid) && self.package.as_ref().is_none_or(is_name)
    }

    /// Whether it is a process of this user id, if it has the right name.
    pub fn may_be(&self, uid: u32) -> bool {
        let app_id = uid % UIDS_OF_A_USER;
        self.uid.is_none_or(|of| of == uid) && self.app_id.is_none_or(|of| of == app_id)
    }

    /// Why no such exception makes sense, and the remedy; `None`: it does.
    pub(super) fn mistake(&self) -> Option<&'static str> {
        if *self == Selector::default() {
            return Some("it is about no process in particular: write package, app-id or uid");
        }
        // A user id has its app id in it.
        let has_both = self.uid.is_some() && self.app_id.is_some();
        has_both.then_some("uid and app-id are both there: keep app-id for the app of all Android users, or uid for one of them")
    }

    /// The higher, the more specific: a user id before an app id, and both before any name, because a process cannot choose them; then
    /// exact names, then longer ones. Two that match one process and have the same rank are equal.
    pub fn rank(&self) -> (bool, bool, bool, usize) {
        let (is_exact, length) = self.package.as_ref().map_or((false, 0), Package::rank);
        (self.uid.is_some(), self.app_id.is_some(), is_exact, length)
    }
}
