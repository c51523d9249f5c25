// SPDX-License-Identifier: Apache-2.0
//! What time on a critical path is spent on.

use std::ops::{Index, IndexMut};

/// What a thread, or a piece of work that waits for a thread, spends time on (AppInsight, OSDI 2012, § 6.4, with the
/// parts of Android).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Component {
    /// The thread runs on a processor. Stretches too short for a reading of the thread's CPU time count as running.
    Running,
    /// The thread could run, and has no processor.
    Runnable,
    /// It waits for a lock that another thread holds.
    Lock,
    /// It waits for another thread's signal.
    Wait,
    /// A message or task is in the queue of its thread.
    Queue,
    /// A transaction with another process, or thread, is under way.
    Binder,
    /// The network.
    Network,
    /// A delay, a sleep, or a wait whose time was over.
    Timer,
    /// A change of the screen, or a callback, waits for the next frame.
    Frame,
    /// A garbage collection, or another request of the managed runtime.
    Gc,
    /// Files and disks.
    Io,
    /// It is not recorded.
    Unknown,
}

impl Component {
    /// All components.
    pub const ALL: [Component; 12] = [
        Component::Running,
        Component::Runnable,
        Component::Lock,
        Component::Wait,
        Component::Queue,
        Component::Binder,
        Component::Network,
        Component::Timer,
        Component::Frame,
        Component::Gc,
        Component::Io,
        Component::Unknown,
    ];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Component::Running => "running",
            Component::Runnable => "runnable",
            Component::Lock => "lock",
            Component::Wait => "wait",
            Component::Queue => "queue",
            Component::Binder => "binder",
            Component::Network => "network",
            Component::Timer => "timer",
            Component::Frame => "frame",
            Component::Gc => "GC",
            Component::Io => "I/O",
            Component::Unknown => "unknown",
        }
    }

    /// Its name as a key of JSON and as a column.
    pub const fn key(self) -> &'static str {
        match self {
            Component::Gc => "gc",
            Component::Io => "io",
            other => other.name(),
        }
    }

    /// Whether the device itself spends it: not the network, and not what is unknown.
    pub const fn is_local(self) -> bool {
        !matches!(self, Component::Network | Component::Unknown)
    }

    /// The component that the first word of a name stands for: of work that the program named, or of a rule of the device.
    /// `network.get` and `io: save` are such names.
    pub fn of_name(name: &str) -> Option<Component> {
        let word = name.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w));
        if is(&["network", "net", "http"]) {
            Some(Component::Network)
        } else if is(&["io", "disk", "file"]) {
            Some(Component::Io)
        } else {
            None
        }
    }

    /// The component of a native method of the class library that waits for the network or for files.
    pub fn of_native(class: &str, method: &str) -> Option<Component> {
        const NETWORK: [(&str, &[&str]); 6] = [
            ("java.net.SocketInputStream", &["socketRead0"]),
            ("java.net.SocketOutputStream", &["socketWrite0"]),
            (
                "java.net.PlainSocketImpl",
                &["socketAccept", "socketConnect"],
            ),
            ("java.net.Inet6AddressImpl", &["lookupHostByName"]),
            (
                "libcore.io.Linux",
                &[
                    "accept",
                    "android_getaddrinfo",
                    "connect",
                    "poll",
                    "recvfromBytes",
                    "recvmsg",
                    "sendmsg",
                    "sendtoBytes",
                ],
            ),
            (
                "com.android.org.conscrypt.NativeCrypto",
                &["SSL_do_handshake", "SSL_read", "SSL_write"],
            ),
        ];
        const FILES: [(&str, &[&str]); 4] = [
            ("java.io.FileDescriptor", &["sync"]),
            (
                "java.io.UnixFileSystem",
                &["createFileExclusively0", "delete0", "list0", "rename0"],
            ),
            (
                "libcore.io.Linux",
                &[
                    "fdatasync",
                    "fsync",
                    "open",
                    "preadBytes",
                    "pwriteBytes",
                    "readBytes",
                    "readv",
                    "rename",
                    "sendfile",
                    "stat",
                    "writeBytes",
                    "writev",
                ],
            ),
            (
                "android.database.sqlite.SQLiteConnection",
                &[
                    "nativeExecute",
                    "nativeExecuteForChangedRowCount",
                    "nativeExecuteForCursorWindow",
                    "nativeExecuteForLastInsertedRowId",
                    "nativeExecuteForLong",
                    "nativeExecuteForString",
                ],
            ),
        ];
        let is_one = |of: &[(&str, &[&str])]| {
            let mut of = of.iter();
            of.any(|(c, methods)| *c == class && methods.contains(&method))
        };
        match (is_one(&NETWORK), is_one(&FILES)) {
            (true, _) => Some(Component::Network),
            (_, true) => Some(Component::Io),
            _ => None,
        }
    }
}

/// Time, by component, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    ns: [u64; Component::ALL.len()],
}

impl Shares {
    /// All of it on one component.
    pub fn of(component: Component, ns: u64) -> Self {
        let mut shares = Shares::default();
        shares[component] = ns;
        shares
    }

    /// The sum, ns.
    pub fn total(&self) -> u64 {
        self.ns.iter().sum()
    }

    /// Adds to a component.
    pub fn add(&mut self, component: Component, ns: u64) {
        self[component] += ns;
    }

    /// Adds all of another one.
    pub fn add_all(&mut self, other: &Shares) {
        for (own, other) in self.ns.iter_mut().zip(other.ns) {
            *own += other;
        }
    }

    /// The components that have any time, in the order of [`Component::ALL`].
    pub fn parts(&self) -> impl Iterator<Item = (Component, u64)> + '_ {
        let all = Component::ALL.into_iter().zip(self.ns);
        all.filter(|(_, ns)| *ns > 0)
    }

    /// The component with the most time, if there is any; of equal ones the first.
    pub fn largest(&self) -> Option<(Component, u64)> {
        let first = |best: (_, u64), next: (_, u64)| if next.1 > best.1 { next } else { best };
        self.parts().reduce(first)
    }
}

impl Index<Component> for Shares {
    type Output = u64;

    fn index(&self, component: Component) -> &u64 {
        &self.ns[component as usize]
    }
}

impl IndexMut<Component> for Shares {
    fn index_mut(&mut self, component: Component) -> &mut u64 {
        &mut self.ns[component as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_work_tell_the_component() {
        assert_eq!(Component::of_name("network.get"), Some(Component::Network));
        assert_eq!(Component::of_name("IO: save"), Some(Component::Io));
        assert_eq!(Component::of_name("networking"), None);
        assert_eq!(Component::of_name(""), None);
    }

    #[test]
    fn shares_add_up() {
        let mut shares = Shares::of(Component::Lock, 5);
        shares.add(Component::Running, 5);
        shares.add_all(&Shares::of(Component::Io, 1));
        assert_eq!(shares.total(), 11);
        assert_eq!(shares.largest(), Some((Component::Running, 5)));
        assert_eq!(shares.parts().count(), 3);
    }
}
