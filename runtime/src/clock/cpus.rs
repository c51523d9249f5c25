// SPDX-License-Identifier: Apache-2.0
//! Measures on each CPU in turn: a kernel may emulate the counter, or deny reading it, on some of the CPUs only, for
//! instance because of an erratum of the fast cores.

/// The CPUs that a thread may run on.
pub(crate) trait Cpus {
    /// Their numbers; none if they are not known.
    fn allowed(&self) -> Vec<usize>;
    /// Moves the calling thread to this CPU, and keeps it there. False if that is impossible.
    fn move_to(&self, cpu: usize) -> bool;
}

/// The CPUs of the calling thread, by the kernel.
struct ThisThread;

impl Cpus for ThisThread {
    fn allowed(&self) -> Vec<usize> {
        // SAFETY: all zeros is a valid set, and the kernel writes at most its size.
        let (set, failed) = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let failed = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0;
            (set, failed)
        };
        if failed {
            return Vec::new();
        }
        (0..8 * size_of::<libc::cpu_set_t>())
            // SAFETY: the number is within the set.
            .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
            .collect()
    }

    fn move_to(&self, cpu: usize) -> bool {
        // SAFETY: all zeros is a valid set; the number, from `allowed`, is within it; the kernel reads the set only.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
        }
    }
}

/// The greatest result of `measure` over all CPUs that this process may use, or the first one that is bad enough.
/// Measures on a thread of its own: from Linux 6.2 on a thread that has once set its affinity keeps to it when its
/// cpuset grows, and so would an app's main thread.
pub(crate) fn worst<T: Ord + Send + 'static>(bad_enough: fn(&T) -> bool, measure: fn() -> T) -> T {
    std::thread::Builder::new()
        .name("hindsight-probe".into())
        .spawn(move || worst_of(&ThisThread, bad_enough, measure))
        .ok()
        .and_then(|thread| thread.join().ok())
        .unwrap_or_else(measure)
}

/// As [`worst`], over these CPUs. Measures where the thread runs if it cannot be moved to any CPU.
fn worst_of<T: Ord>(
    cpus: &impl Cpus,
    bad_enough: impl Fn(&T) -> bool,
    mut measure: impl FnMut() -> T,
) -> T {
    let mut worst = None;
    for cpu in cpus.allowed() {
        if !cpus.move_to(cpu) {
            continue;
        }
        let measured = measure();
        let stop = bad_enough(&measured);
        worst = worst.max(Some(measured));
        if stop {
            break;
        }
    }
    worst.unwrap_or_else(measure)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// CPUs 0 to 4, of which 1 is offline; the thread starts on 0.
    #[derive(Default)]
    struct Fake {
        unknown: bool,
        offline: Vec<usize>,
        now: Cell<usize>,
        measured_on: RefCell<Vec<usize>>,
    }

    impl Cpus for Fake {
        fn allowed(&self) -> Vec<usize> {
            if self.unknown {
                Vec::new()
            } else {
                (0..5).collect()
            }
        }

        fn move_to(&self, cpu: usize) -> bool {
            let online = !self.offline.contains(&cpu);
            if online {
                self.now.set(cpu);
            }
            online
        }
    }

    /// The worst price on these CPUs, and where it was measured.
    fn measure(cpus: Fake, prices: [u64; 5]) -> (u64, Vec<usize>) {
        let worst = worst_of(
            &cpus,
            |price| *price > 200,
            || {
                cpus.measured_on.borrow_mut().push(cpus.now.get());
                prices[cpus.now.get()]
            },
        );
        (worst, cpus.measured_on.into_inner())
    }

    #[test]
    fn the_slowest_cpu_counts_and_a_slow_one_ends_the_search() {
        let fast = [20, 21, 25, 22, 20];
        assert_eq!(measure(Fake::default(), fast), (25, vec![0, 1, 2, 3, 4]));
        let two_slow = [20, 20, 20, 1500, 1600];
        assert_eq!(measure(Fake::default(), two_slow), (1500, vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_cpu_that_cannot_be_used_is_left_out_and_without_any_the_current_one_counts() {
        let prices = [20, 1500, 20, 20, 20];
        let offline = |offline: &[usize]| Fake {
            offline: offline.to_vec(),
            ..Fake::default()
        };
        assert_eq!(measure(offline(&[1]), prices), (20, vec![0, 2, 3, 4]));
        assert_eq!(measure(offline(&[0, 1, 2, 3, 4]), prices), (20, vec![0]));
        let unknown = Fake {
            unknown: true,
            ..Fake::default()
        };
        assert_eq!(measure(unknown, prices), (20, vec![0]));
    }

    #[test]
    fn each_cpu_of_this_machine_is_visited_and_the_caller_keeps_its_own() {
        let before = ThisThread.allowed();
        assert!(!before.is_empty());
        let all = std::thread::spawn(|| {
            let visited = RefCell::new(Vec::new());
            worst_of(
                &ThisThread,
                |_| false,
                || {
                    // SAFETY: no precondition.
                    visited
                        .borrow_mut()
                        .push(unsafe { libc::sched_getcpu() } as usize);
                },
            );
            visited.into_inner()
        });
        assert_eq!(all.join().unwrap(), before);
        worst(|_| false, || ());
        assert_eq!(ThisThread.allowed(), before);
    }
}
