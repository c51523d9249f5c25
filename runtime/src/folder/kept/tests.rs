// SPDX-License-Identifier: Apache-2.0

use super::*;

const MIB: u64 = 1 << 20;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
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
        super::plan(&files, mib * MIB, limits, free.map(|f| f * MIB), at(1000))
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
    for (age, removed) in [(901, 0), (900, 0), (899, 1), (699, 3)] {
        let limits = Limits {
            age: Some(Duration::from_secs(age)),
            ..Limits::NONE
        };
        assert_eq!(plan(&limits, 5, None), Ok(removed), "{age} s");
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
    let large = plan(&files, 9 * MIB, &limits, None, at(1000)).unwrap_err();
    assert!(
        large.contains("9 MiB") && large.contains("max-mib=8"),
        "{large}"
    );
    let full = plan(&files, 5 * MIB, &limits, Some(44 * MIB), at(1000)).unwrap_err();
    assert!(full.contains("min-free-mib=50"), "{full}");
    assert_eq!(
        plan(&files, 5 * MIB, &limits, Some(45 * MIB), at(1000)),
        Ok(1)
    );
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
        .filter(|name| !name.ends_with(".snapshots"))
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
    KeptFiles::new(folder, "app").tidy(&limits, at(100));
    assert_eq!(names(folder), ["app-7-4.hindsight"]);
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
        files.tidy(&Limits::NONE, at(200));
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
    let index = fs::read_to_string(files.index_path()).unwrap();
    assert_eq!(index, "app-7-1.hindsight\napp-7-2.hindsight\n");
}

#[test]
fn a_busy_index_is_added_to() {
    let folder = tempfile::tempdir().unwrap();
    let files = KeptFiles::new(folder.path(), "app");
    files
        .make_room(&Limits::NONE, "app-7-1.hindsight", 1, at(1))
        .unwrap();
    let busy = Index::open(&files.index_path(), false).unwrap();
    files
        .make_room(&Limits::NONE, "app-8-1.hindsight", 1, at(1))
        .unwrap();
    let expected = ["app-7-1.hindsight", "app-8-1.hindsight"];
    assert_eq!(Vec::from_iter(busy.names()), expected);
}
