//! What the processes do that the tests in [`processes`](crate::processes) start: this executable again, with a role in the environment.

use crate::{ROOMY, is_whole, names, path, put, stamped, warnings};
use fused_graph_core::store::{self, Disk};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLE: &str = "STORE_TEST_ROLE";
const FOLDER: &str = "STORE_TEST_FOLDER";
const NUMBER: &str = "STORE_TEST_NUMBER";

/// The arguments that make this executable run [`child`] alone.
pub(crate) const ARGS: [&str; 3] = ["--exact", "child::child", "--nocapture"];

/// `program`, which is this executable or starts it, in a role.
pub(crate) fn command(program: impl AsRef<Path>, role: &str, folder: &Path, number: u64) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env(ROLE, role).env(FOLDER, folder).env(NUMBER, number.to_string());
    command
}

/// No test unless there is a role: the other tests start it.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let number = std::env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "write for ever" => write_for_ever(&folder),
        "share" => share(&folder, number),
        "same key" => same_key(&folder, number),
        "fill" => fill(&folder),
        "only read" => only_read(&folder),
        "see nothing" => see_nothing(&folder),
        "environment" => environment(),
        other => panic!("no role {other}"),
    }
}

/// Until it is killed.
fn write_for_ever(folder: &Path) {
    let disk = Disk::new(folder, ROOMY);
    for seed in 0.. {
        disk.put(&stamped(["a", "b"][seed as usize % 2], seed, 4 << 20));
    }
}

/// Many keys, and no room for all.
fn share(folder: &Path, number: u64) {
    let disk = Disk::new(folder, 200_000);
    let said = warnings(|| {
        for round in 0..12 {
            for name in ["a", "b", "c", "d", "e", "f"] {
                if let Some(entry) = disk.get(&stamped(name, 0, 50_000).key) {
                    assert!(is_whole(&entry, name, 50_000));
                }
                disk.put(&stamped(name, 1000 * number + round, 50_000));
                if number == 0 && round % 4 == 3 {
                    disk.clear().unwrap();
                }
            }
        }
    });
    // `clear` takes what others are writing as well: to them that is a write that failed, told once.
    assert!(said.len() <= 1 && said.iter().all(|text| text.contains("plans are not kept")), "{said:?}");
}

/// One key that everybody writes: once there, it is always there, and whole.
fn same_key(folder: &Path, number: u64) {
    let disk = Disk::new(folder, ROOMY);
    let said = warnings(|| {
        for round in 0..60 {
            disk.put(&stamped("a", 1000 * number + round, 300_000));
            let entry = disk.get(&stamped("a", 0, 300_000).key).unwrap();
            assert!(is_whole(&entry, "a", 300_000));
        }
    });
    assert_eq!(said, [""; 0]);
}

/// Ever larger entries, until one does not fit on the disk.
fn fill(folder: &Path) {
    let disk = Disk::new(folder, ROOMY);
    let sizes: Vec<usize> = (10..24).map(|power| 1 << power).collect();
    let mut fitted = 0;
    let said = warnings(|| {
        fitted = sizes.iter().take_while(|size| put(&disk, &stamped("a", 1, **size))).count();
        assert!(!put(&disk, &stamped("a", 1, sizes[fitted])), "the second time");
    });
    assert!((3..sizes.len()).contains(&fitted), "{fitted} entries fitted");
    assert!(said.len() == 1 && said[0].contains("plans are not kept in"), "{said:?}");
    println!("{}", said[0]);
    for (i, size) in sizes.iter().enumerate() {
        let entry = disk.get(&stamped("a", 1, *size).key);
        assert_eq!(entry.is_some_and(|entry| is_whole(&entry, "a", *size)), i < fitted, "{size} bytes");
    }
    assert_eq!(names(folder).len(), fitted, "nothing unfinished is left");
    std::fs::remove_file(path(&disk, &stamped("a", 1, sizes[fitted - 1]).key)).unwrap();
    assert!(put(&disk, &stamped("a", 2, 1024)), "there is room again");
}

fn only_read(folder: &Path) {
    let disk = Disk::new(folder, ROOMY);
    let said = warnings(|| {
        for _ in 0..2 {
            assert!(disk.get(&stamped("a", 1, 100).key).is_some_and(|entry| is_whole(&entry, "a", 100)));
            assert!(!put(&disk, &stamped("b", 1, 100)));
        }
    });
    assert!(said.len() == 1 && said[0].contains("plans are not kept in"), "{said:?}");
}

fn see_nothing(folder: &Path) {
    let disk = Disk::new(folder, ROOMY);
    let said = warnings(|| {
        for _ in 0..2 {
            assert_eq!(disk.get(&stamped("a", 1, 100).key), None);
            disk.put(&stamped("b", 1, 100));
        }
    });
    assert_eq!(said.len(), 2, "one for reading and one for writing: {said:?}");
    assert!(disk.list().is_err());
}

/// Keeps and finds an entry as the environment says, and prints what came of it.
fn environment() {
    let wanted = stamped("a", 1, 100);
    let (mut loaded, mut found) = (None, None);
    let said = warnings(|| {
        for _ in 0..2 {
            loaded = store::loaded(&wanted.key);
            if let Some(disk) = Disk::of_environment() {
                disk.put(&wanted);
                found = disk.get(&wanted.key);
            }
        }
    });
    assert!(loaded.iter().chain(&found).all(|entry| *entry == wanted));
    let (folder, loaded, found) = (Disk::of_environment().map(Disk::folder), loaded.is_some(), found.is_some());
    println!("in {folder:?}, loaded {loaded}, found {found}, {} warnings", said.len());
}
