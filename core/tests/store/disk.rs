//! One process and its folder.

use crate::{ROOMY, key, names, path, plan, put, stamped, warnings};
use fused_graph_core::store::{Checked, Disk};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Sets when a file was used last, in seconds before now, or after it.
fn used(path: &Path, ago: i64) {
    let (now, by) = (SystemTime::now(), Duration::from_secs(ago.unsigned_abs()));
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(if ago < 0 { now + by } else { now - by }).unwrap();
}

fn store() -> (tempfile::TempDir, Disk) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path().join("a/b"), ROOMY);
    (folder, disk)
}

#[test]
fn reading_makes_no_folder() {
    let (_folder, disk) = store();
    assert_eq!(disk.get(&key("a")), None);
    assert_eq!((disk.list().unwrap().len(), disk.clear().unwrap()), (0, 0));
    assert!(!disk.folder().exists());
}

#[test]
fn every_flip_and_every_truncation_of_a_stored_entry_is_a_miss_that_heals() {
    let (_folder, disk) = store();
    let entry = stamped("a", 1, 20);
    disk.put(&entry);
    let path = path(&disk, &entry.key);
    let whole = fs::read(&path).unwrap();
    let flips = (0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        bytes
    });
    let cuts = (0..whole.len()).map(|size| whole[..size].to_vec());
    let said = warnings(|| {
        for bytes in flips.chain(cuts) {
            fs::write(&path, &bytes).unwrap();
            assert_eq!(disk.get(&entry.key), None);
            assert!(matches!(disk.list().unwrap().as_slice(), [] | [_]));
        }
    });
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(put(&disk, &entry));
    assert_eq!(disk.get(&entry.key), Some(entry));
}

#[test]
fn an_entry_larger_than_the_whole_store_drives_nothing_out() {
    let (_folder, roomy) = store();
    roomy.put(&plan("a", b"1"));
    let disk = Disk::new(roomy.folder(), 1000);
    let said = warnings(|| {
        assert!(!put(&disk, &plan("b", &[0; 1000])));
        assert!(!put(&disk, &plan("c", &[0; 1000])));
    });
    assert!(said.len() == 1 && said[0].contains("FUSED_GRAPH_CACHE_SIZE"), "{said:?}");
    assert!(disk.get(&key("a")).is_some());
}

#[test]
fn files_that_are_not_ours_are_neither_counted_nor_removed() {
    let (_folder, disk) = store();
    fs::create_dir_all(disk.folder()).unwrap();
    let theirs = ["floor.plan", "notes.txt", "0123abcd.plan"].map(|name| disk.folder().join(name));
    for file in &theirs {
        fs::write(file, vec![0; 50_000]).unwrap();
        used(file, 100_000);
    }
    let disk = Disk::new(disk.folder(), 20_000);
    assert!(put(&disk, &plan("a", b"1")));
    assert_eq!(disk.list().unwrap().len(), 1);
    assert_eq!(disk.clear().unwrap(), 1);
    assert!(theirs.iter().all(|file| file.exists()));
}

#[test]
fn a_version_with_another_format_has_files_of_its_own() {
    let (_folder, disk) = store();
    disk.put(&plan("a", b"1"));
    let ours = path(&disk, &key("a"));
    let name = ours.file_name().unwrap().to_str().unwrap();
    let newer = disk.folder().join(name.replace(".1.plan", ".2.plan"));
    assert_ne!(ours, newer);
    fs::write(&newer, b"who knows").unwrap();
    assert_eq!(disk.get(&key("a")), Some(plan("a", b"1")));
    disk.put(&plan("a", b"2"));
    assert_eq!(disk.list().unwrap().len(), 1, "that of another format is not judged");
    assert_eq!(fs::read(&newer).unwrap(), b"who knows");
    // But it takes room, and goes when it is old.
    used(&newer, 100_000);
    let small = Disk::new(disk.folder(), 2000);
    fs::write(&newer, vec![0; 5000]).unwrap();
    used(&newer, 100_000);
    assert!(put(&small, &plan("b", b"1")) && !newer.exists());
    assert_eq!(small.list().unwrap().len(), 2);
}

#[test]
fn what_writers_left_that_died_is_swept_whatever_the_clock_says_and_takes_room() {
    let (_folder, disk) = store();
    fs::create_dir_all(disk.folder()).unwrap();
    let [old, ahead, alive] = ["old", "ahead", "alive"].map(|name| disk.folder().join(format!(".writing-{name}")));
    for (file, ago) in [(&old, 7200), (&ahead, -7200), (&alive, 0)] {
        fs::write(file, vec![0; 3000]).unwrap();
        used(file, ago);
    }
    disk.put(&plan("a", b"1"));
    assert_eq!((old.exists(), ahead.exists(), alive.exists()), (false, false, true));
    used(&path(&disk, &key("a")), 100);
    let small = Disk::new(disk.folder(), 3000);
    assert!(put(&small, &plan("b", b"1")), "it stays although the unfinished file fills the store");
    assert_eq!(small.get(&key("a")), None, "the older one makes room");
    assert!(alive.exists());
    assert_eq!(disk.clear().unwrap(), 1);
    assert_eq!(names(disk.folder()), [""; 0]);
}

#[test]
fn a_warning_of_reading_does_not_hide_one_of_writing() {
    let (folder, _) = store();
    let disk = Disk::new(folder.path(), 2000);
    disk.put(&plan("a", b"1"));
    let file = path(&disk, &key("a"));
    let said = warnings(|| {
        for _ in 0..2 {
            fs::write(&file, b"damage").unwrap();
            assert_eq!(disk.get(&key("a")), None);
            disk.put(&plan("b", &[0; 3000]));
        }
    });
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn a_file_where_the_folder_should_be_is_told_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"mine").unwrap();
    for place in [file.clone(), file.join("below")] {
        let disk = Disk::new(&place, ROOMY);
        let said = warnings(|| {
            for _ in 0..3 {
                assert_eq!(disk.get(&key("a")), None);
                disk.put(&plan("a", b"1"));
            }
        });
        assert!(said.iter().any(|text| text.contains("plans are not kept in")) && said.len() <= 2, "{said:?}");
        assert!(disk.list().is_err() && disk.clear().is_err());
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_folder_where_an_entry_should_be_is_in_nobodys_way() {
    let (_folder, disk) = store();
    disk.put(&plan("a", b"1"));
    let path = path(&disk, &key("a"));
    fs::remove_file(&path).unwrap();
    fs::create_dir_all(path.join("x")).unwrap();
    assert_eq!(disk.get(&key("a")), None);
    disk.put(&plan("a", b"1"));
    assert!(put(&disk, &plan("b", b"1")));
    assert_eq!(names(disk.folder()).len(), 2, "an unfinished file is left");
    assert!(path.join("x").exists());
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_linked_folder_works() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&real, &link).unwrap();
        let disk = Disk::new(&link, ROOMY);
        assert!(put(&disk, &plan("a", b"1")));
        assert_eq!(disk.get(&key("a")), Some(plan("a", b"1")));
        assert_eq!(names(&real).len(), 1);
    }

    /// Neither to read nor to write, whether it leads to a valid entry or to nothing.
    #[test]
    fn a_linked_entry_is_not_followed() {
        let (folder, disk) = store();
        disk.put(&plan("a", b"1"));
        let (path, outside) = (path(&disk, &key("a")), folder.path().join("outside"));
        fs::rename(&path, &outside).unwrap();
        let valid = fs::read(&outside).unwrap();
        for target in [&outside, &folder.path().join("nothing")] {
            symlink(target, &path).unwrap();
            assert_eq!(disk.get(&key("a")), None);
            assert!(put(&disk, &plan("a", b"2")));
            assert!(path.symlink_metadata().unwrap().is_file());
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&outside).unwrap(), valid);
        assert!(!folder.path().join("nothing").exists());
    }

    #[test]
    fn a_folder_linked_to_nothing_is_one_warning() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(folder.path().join("nothing"), &link).unwrap();
        let disk = Disk::new(&link, ROOMY);
        let said = warnings(|| [plan("a", b"1"), plan("b", b"1")].iter().for_each(|entry| disk.put(entry)));
        assert_eq!(said.len(), 1, "{said:?}");
    }

    /// Opening a pipe for reading would wait for a writer for ever.
    #[test]
    fn a_pipe_where_an_entry_should_be_is_a_miss() {
        let (_folder, disk) = store();
        disk.put(&plan("a", b"1"));
        let path = path(&disk, &key("a"));
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            assert_eq!(disk.get(&key("a")), None);
            assert!(put(&disk, &plan("a", b"1")));
            done.send(()).unwrap();
        });
        assert!(finished.recv_timeout(Duration::from_secs(20)).is_ok(), "it waits for the pipe");
    }

    /// A file with a hole of half a terabyte: reading all of it would end the process.
    #[test]
    fn a_file_too_large_to_be_an_entry_is_not_read() {
        let (_folder, disk) = store();
        disk.put(&plan("a", b"1"));
        let path = path(&disk, &key("a"));
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 39).unwrap();
        let list = disk.list().unwrap();
        assert!(matches!(&list[0].content, Checked::Unusable(why) if why.contains("damaged")), "{list:?}");
        assert_eq!(disk.get(&key("a")), None);
        assert!(!path.exists());
    }
}
