// SPDX-License-Identifier: Apache-2.0

use std::fs::File;

use super::*;

const MIB: u64 = 1 << 20;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn days(number: u64) -> SystemTime {
    at(20_000 * DAY.as_secs()) + Duration::from_secs(number * DAY.as_secs())
}

fn kept(name: &str, mib: u64, written: u64) -> Kept {
    Kept {
        name: name.into(),
        bytes: mib * MIB,
        written: at(written),
    }
}

#[test]
fn the_oldest_go_until_each_limit_holds() {
    let files = [kept("a", 10, 100), kept("b", 20, 200), kept("c", 30, 300)];
    let plan = |limits: &Limits, mib: u64, free: Option<u64>| {
        super::plan(&files, 0, mib * MIB, limits, free.map(|f| f * MIB))
    };
    assert_eq!(plan(&Limits::NONE, 1000, Some(0)), Ok(0));
    for (max, removed) in [(4, 0), (3, 1), (2, 2), (1, 3)] {
        let limits = Limits {
            files: Some(max),
            ..Limits::NONE
        };
        assert_eq!(plan(&limits, 1, None), Ok(removed), "{max} files");
    }
    for (max, removed) in [(65, 0), (64, 1), (55, 1), (54, 2), (35, 2), (34, 3), (5, 3)] {
        let limits = Limits {
            bytes: Some(max * MIB),
            ..Limits::NONE
        };
        assert_eq!(plan(&limits, 5, None), Ok(removed), "{max} MiB");
    }
    for old in 0..=3 {
        let removed = super::plan(&files, old, 5, &Limits::NONE, None);
        assert_eq!(removed, Ok(old), "{old} are too old");
    }
    let limits = Limits {
        free: Some(50 * MIB),
        ..Limits::NONE
    };
    for (free, removed) in [(55, 0), (54, 1), (45, 1), (44, 2), (24, 3)] {
        assert_eq!(plan(&limits, 5, Some(free)), Ok(removed), "{free} MiB free");
    }
    assert_eq!(plan(&limits, 5, None), Ok(0), "it is not known");
}

#[test]
fn a_snapshot_for_which_there_can_be_no_room_is_refused() {
    let files = [kept("a", 10, 100)];
    let limits = Limits {
        bytes: Some(8 * MIB),
        free: Some(50 * MIB),
        ..Limits::NONE
    };
    let large = plan(&files, 0, 9 * MIB, &limits, None).unwrap_err();
    assert!(
        large.contains("9 MiB") && large.contains("max-mib=8"),
        "{large}"
    );
    let full = plan(&files, 0, 5 * MIB, &limits, Some(44 * MIB)).unwrap_err();
    assert!(full.contains("min-free-mib=50"), "{full}");
    assert_eq!(plan(&files, 0, 5 * MIB, &limits, Some(45 * MIB)), Ok(1));
}

fn write(folder: &Path, name: &str, bytes: usize, written: u64) {
    let path = folder.join(name);
    fs::write(&path, vec![1; bytes]).unwrap();
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(at(written))
        .unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.ends_with(".snapshots") && !name.ends_with(".processes"))
        .collect();
    names.sort();
    names
}

fn two_files() -> Limits {
    Limits {
        files: Some(2),
        ..Limits::NONE
    }
}

#[test]
fn only_snapshots_of_this_process_and_user_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let others = [
        "app-x-7-1.hindsight",
        "app-7-1.hindsight.txt",
        "app-7.hindsight",
        "other-7-1.hindsight",
    ];
    for name in others {
        write(folder, name, 1, 1);
    }
    std::os::unix::fs::symlink("/etc/passwd", folder.join("app-7-9.hindsight")).unwrap();
    write(folder, "app-7-1.hindsight", 1, 30);
    write(folder, "app-8-1.hindsight", 1, 10);
    write(folder, "app-7-2.hindsight", 1, 20);
    let files = KeptFiles::new(folder, "app");
    let third = ("app-7-3.hindsight".to_owned(), 3);
    assert_eq!(files.next_name(7, 0), third);
    assert_eq!(files.next_name(7, 2), third);
    assert_eq!(files.next_name(7, 3).1, 4);
    let removed = files.make_room(&two_files(), "app-7-3.hindsight", 1, at(40));
    assert_eq!(removed, Ok(2));
    let mut left: Vec<_> = others.map(str::to_owned).into();
    left.extend(["app-7-1.hindsight".into(), "app-7-9.hindsight".into()]);
    left.sort();
    assert_eq!(names(folder), left);
}

#[test]
fn without_the_right_to_list_the_index_has_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = KeptFiles {
        may_list: false,
        ..KeptFiles::new(folder, "app")
    };
    write(folder, "app-1-1.hindsight", 1, 1);
    for number in 1..=4 {
        let (name, _) = files.next_name(7, number - 1);
        assert_eq!(name, format!("app-7-{number}.hindsight"));
        let removed = files.make_room(&two_files(), &name, 1, at(100)).unwrap();
        assert_eq!(removed, usize::from(number > 2));
        write(folder, &name, 1, 10 * u64::from(number));
    }
    // The one that no index knows stays.
    let left = [
        "app-1-1.hindsight",
        "app-7-3.hindsight",
        "app-7-4.hindsight",
    ];
    assert_eq!(names(folder), left);
    assert_eq!(files.younger_than(Duration::from_secs(65), at(100)), 1);
    assert_eq!(files.younger_than(Duration::from_secs(100), at(100)), 2);
    // A process that may list the folder finds it.
    let limits = Limits {
        age: Some(Duration::from_secs(60)),
        ..Limits::NONE
    };
    let listing = KeptFiles::new(folder, "app");
    let written = ["app-7-3.hindsight", "app-7-4.hindsight"];
    for name in written {
        write(folder, name, 1, 100 + DAY.as_secs());
    }
    listing.tidy(&limits, at(100) + DAY);
    assert_eq!(names(folder), written);
}

/// Files of these days, and looks on those: what is left after each.
#[test]
fn a_wrong_clock_removes_nothing_and_keeps_nothing_for_ever() {
    type Looks<'a> = (&'a str, &'a [u64], &'a [(u64, usize)]);
    let looks: [Looks<'_>; 5] = [
        (
            "a week",
            &[0, 3],
            &[(0, 2), (6, 2), (8, 1), (9, 1), (11, 0)],
        ),
        ("two in one day", &[0, 3], &[(0, 2), (1, 2), (8, 1), (8, 1)]),
        (
            "ahead and back",
            &[0, 3],
            &[(3, 2), (4000, 2), (4, 2), (5, 2), (8, 1)],
        ),
        ("ahead to stay", &[0, 3], &[(3, 2), (4000, 2), (4001, 0)]),
        ("after months", &[0], &[(0, 1), (90, 1), (91, 0)]),
    ];
    for (what, written, looks) in looks {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let files = KeptFiles::new(folder, "app");
        let limits = Limits {
            age: Some(7 * DAY),
            ..Limits::NONE
        };
        Index::open(&files.index_path(), true).unwrap();
        for (number, day) in (1..).zip(written) {
            let seconds = days(*day).duration_since(SystemTime::UNIX_EPOCH);
            let name = format!("app-7-{number}.hindsight");
            write(folder, &name, 1, seconds.unwrap().as_secs());
        }
        for (day, left) in looks {
            files.tidy(&limits, days(*day));
            assert_eq!(names(folder).len(), *left, "{what}: day {day}");
        }
    }
}

#[test]
fn a_file_from_the_future_gets_the_present_date() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = KeptFiles::new(folder, "app");
    let name = "app-7-1.hindsight";
    let before = SystemTime::now();
    // Files have the time of a clock of some milliseconds.
    let (before, ahead) = (before - Duration::from_secs(1), before + 400 * DAY);
    let seconds = ahead.duration_since(SystemTime::UNIX_EPOCH);
    write(folder, name, 1, seconds.unwrap().as_secs());
    let date = || fs::metadata(folder.join(name)).unwrap().modified().unwrap();
    Index::open(&files.index_path(), true).unwrap();
    files.tidy(&Limits::NONE, SystemTime::now() - DAY);
    assert!(date() > SystemTime::now(), "no look before shows the clock");
    assert_eq!(files.younger_than(DAY, SystemTime::now()), 0);
    files.tidy(&Limits::NONE, SystemTime::now());
    assert!(before <= date() && date() <= SystemTime::now());
    assert_eq!(files.younger_than(DAY, SystemTime::now()), 1);
}

#[test]
fn what_dead_writers_left_is_removed_and_what_living_ones_write_is_not() {
    let dead = i32::MAX;
    // SAFETY: no precondition.
    let alive = unsafe { libc::getppid() };
    for may_list in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let files = KeptFiles {
            may_list,
            ..KeptFiles::new(folder, "app")
        };
        for pid in [dead, alive] {
            let name = format!("app-{pid}-1.hindsight");
            files.make_room(&Limits::NONE, &name, 1, at(100)).unwrap();
            for number in 0..2 {
                write(folder, &format!(".{name}.{pid}.{number}.tmp"), 1, 100);
            }
        }
        write(
            folder,
            &format!(".other-{dead}-1.hindsight.{dead}.0.tmp"),
            1,
            1,
        );
        files.tidy(&Limits::NONE, at(200) + DAY / 2);
        let mut left: Vec<_> = (0..2)
            .map(|n| format!(".app-{alive}-1.hindsight.{alive}.{n}.tmp"))
            .collect();
        left.push(format!(".other-{dead}-1.hindsight.{dead}.0.tmp"));
        left.sort();
        assert_eq!(names(folder), left, "may list: {may_list}");
        // Later the process id belongs to another process.
        files.tidy(&Limits::NONE, at(200) + OLD);
        assert_eq!(names(folder).len(), 1, "may list: {may_list}");
    }
}

/// One of two hidden files of a writer that may be alive is removed for its age: the other one stays known.
#[test]
fn a_hidden_file_that_stays_is_found_later_where_nobody_may_list() {
    // SAFETY: no precondition.
    let alive = unsafe { libc::getppid() };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = KeptFiles {
        may_list: false,
        ..KeptFiles::new(folder, "app")
    };
    let name = format!("app-{alive}-1.hindsight");
    files.make_room(&Limits::NONE, &name, 1, at(100)).unwrap();
    let day = OLD.as_secs();
    for (number, written) in [(0, 100 + day), (1, 100)] {
        let hidden = format!(".{name}.{alive}.{number}.tmp");
        write(folder, &hidden, 1, written);
    }
    files.tidy(&Limits::NONE, at(101) + OLD);
    assert_eq!(names(folder), [format!(".{name}.{alive}.0.tmp")]);
    files.tidy(&Limits::NONE, at(102) + 2 * OLD);
    assert_eq!(names(folder), [""; 0]);
}

#[test]
fn a_process_finds_what_the_user_s_other_processes_and_former_names_left() {
    let dead = i32::MAX;
    for may_list in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let of = |process| KeptFiles {
            may_list,
            ..KeptFiles::new(folder, process)
        };
        let limits = Limits {
            age: Some(7 * DAY),
            ..Limits::NONE
        };
        // `<pre-initialized>` is what Android calls a child of a zygote until it has its app's name.
        for process in ["<pre-initialized>", "app:remote", "app"] {
            let files = of(process);
            let (name, number) = files.next_name(dead as u32, 0);
            assert_eq!(number, 1);
            files.make_room(&limits, &name, 1, days(0)).unwrap();
            let seconds = days(0).duration_since(SystemTime::UNIX_EPOCH);
            write(folder, &name, 1, seconds.unwrap().as_secs());
            let (unfinished, _) = files.next_name(dead as u32, 1);
            files.make_room(&limits, &unfinished, 1, days(0)).unwrap();
            write(folder, &format!(".{unfinished}.{dead}.0.tmp"), 1, 1);
        }
        write(folder, "stranger-7-1.hindsight", 1, 1);
        let hidden = |name: &&String| name.ends_with(".tmp");
        assert_eq!(names(folder).iter().filter(hidden).count(), 3);
        of("app").tidy(&limits, days(6));
        assert_eq!(names(folder).iter().filter(hidden).count(), 0);
        assert_eq!(names(folder).len(), 4, "may list: {may_list}");
        of("app").tidy(&limits, days(8));
        assert_eq!(names(folder), ["stranger-7-1.hindsight"], "{may_list}");
        let processes = fs::read_to_string(folder.join(format!(".{}.processes", user())));
        let processes: Vec<_> = processes.unwrap().lines().map(str::to_owned).collect();
        let noted = processes.iter().filter(|line| !line.is_empty());
        assert_eq!(noted.count(), 3, "each once: {processes:?}");
    }
}

#[test]
fn names_of_processes_that_are_none_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let files = KeptFiles::new(folder.path(), "app");
    let text = b"../../etc\n\n/\n\xff\xff\napp\n";
    fs::write(files.processes_path(), text).unwrap();
    files.tidy(&Limits::NONE, at(1));
    files
        .make_room(&Limits::NONE, "app-7-1.hindsight", 1, at(1))
        .unwrap();
    assert_eq!(fs::read(files.processes_path()).unwrap(), text);
    // A list that is full is left as it is.
    let full = vec![b'x'; MAX_PROCESSES as usize];
    fs::write(files.processes_path(), &full).unwrap();
    files
        .make_room(&Limits::NONE, "app-7-2.hindsight", 1, at(1))
        .unwrap();
    assert_eq!(fs::read(files.processes_path()).unwrap(), full);
}

#[test]
fn a_refused_snapshot_removes_nothing_and_an_index_of_nonsense_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = KeptFiles::new(folder, "app");
    write(folder, "app-7-1.hindsight", 1, 10);
    fs::write(
        files.index_path(),
        b"../x\n/etc/passwd\n\xff\n\napp-7-1.hindsight",
    )
    .unwrap();
    let limits = Limits {
        bytes: Some(MIB),
        ..two_files()
    };
    let refused = files.make_room(&limits, "app-7-2.hindsight", 2 * MIB, at(40));
    assert!(refused.unwrap_err().contains("max-mib=1"));
    assert_eq!(names(folder), ["app-7-1.hindsight"]);
    assert_eq!(
        files.make_room(&limits, "app-7-2.hindsight", 1, at(40)),
        Ok(0)
    );
    let index = Index::open(&files.index_path(), false).unwrap();
    let expected = ["app-7-1.hindsight", "app-7-2.hindsight"];
    assert_eq!(Vec::from_iter(index.read().names), expected);
}
