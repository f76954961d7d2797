//! Damage, crowds and full disks.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

fn key(n: usize) -> Key {
    Key { device: "GPU".to_owned(), library: "cuDNN 9.19.0".to_owned(), text: format!("graph {n}") }
}

/// An entry whose payload says which it is.
fn entry(n: usize, bytes: usize) -> Entry {
    let payload = (0..bytes).map(|i| (i * 31 + n * 7) as u8).collect();
    Entry { key: key(n), function: "f".to_owned(), tuned: false, payload }
}

fn disk(dir: &tempfile::TempDir) -> Disk {
    Disk::new(dir.path().join("store"), 1 << 20)
}

#[test]
fn there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(&dir);
    assert!(disk.get(&key(1)).is_none());
    disk.put(&entry(1, 300));
    assert_eq!(disk.get(&key(1)), Some(entry(1, 300)));
    assert!(disk.get(&key(2)).is_none());
    // What differs in any part of the key is another plan.
    for change in [|k: &mut Key| k.device.push('x'), |k: &mut Key| k.library.push('x'), |k: &mut Key| k.text.push('x')]
    {
        let mut other = key(1);
        change(&mut other);
        assert!(disk.get(&other).is_none());
    }
    assert_eq!(disk.list().unwrap().len(), 1);
    assert_eq!(disk.clear().unwrap(), 1);
    assert!(disk.get(&key(1)).is_none() && disk.list().unwrap().is_empty());
}

#[test]
fn a_tuned_choice_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(&dir);
    let tuned = Entry { tuned: true, ..entry(1, 10) };
    disk.put(&tuned);
    disk.put(&entry(1, 20));
    assert_eq!(disk.get(&key(1)), Some(tuned));
    let again = Entry { tuned: true, ..entry(1, 30) };
    disk.put(&again);
    assert_eq!(disk.get(&key(1)), Some(again));
}

#[test]
fn every_flipped_byte_and_every_truncation() {
    let whole = entry(3, 200);
    let bytes = whole.to_bytes().unwrap();
    let bundle = Bundle::new((0..4).map(|n| entry(n, 40)));
    let of_bundle = bundle.to_bytes().unwrap();
    assert_eq!(Bundle::from_bytes(&of_bundle).unwrap(), bundle);
    for at in 0..bytes.len() {
        for bit in [1u8, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= bit;
            assert!(Entry::from_bytes(&damaged).is_err(), "byte {at}");
        }
        assert!(Entry::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
    for at in 0..of_bundle.len() {
        let mut damaged = of_bundle.clone();
        damaged[at] ^= 4;
        assert!(Bundle::from_bytes(&damaged).is_err() && Bundle::from_bytes(&of_bundle[..at]).is_err(), "byte {at}");
    }
    assert!(Entry::from_bytes(&[bytes.clone(), vec![0]].concat()).is_err());
    assert!(Entry::from_bytes(&of_bundle).is_err() && Bundle::from_bytes(&bytes).is_err());
}

#[test]
fn what_errors_say() {
    let bytes = entry(1, 10).to_bytes().unwrap();
    let mut newer = bytes.clone();
    newer[8] = 9;
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let texts: Vec<String> = [&b"PK\x03\x04 a zip file"[..], &newer, &bytes[..60], &flipped, &[]]
        .map(|b| Entry::from_bytes(b).unwrap_err().to_string())
        .into();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn damage_on_disk_is_removed_and_rebuilt_and_newer_formats_stay() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(&dir);
    disk.put(&entry(1, 100));
    let path = disk.list().unwrap()[0].path.clone();
    for damage in [&b""[..], b"not ours", &fs::read(&path).unwrap()[..70]] {
        fs::write(&path, damage).unwrap();
        assert!(matches!(disk.list().unwrap()[0].content, Checked::Unusable(_)));
        assert!(disk.get(&key(1)).is_none());
        assert!(!path.exists(), "what is damaged goes");
        disk.put(&entry(1, 100));
        assert_eq!(disk.get(&key(1)), Some(entry(1, 100)));
    }
    let mut newer = fs::read(&path).unwrap();
    newer[8] = 77;
    fs::write(&path, &newer).unwrap();
    assert!(disk.get(&key(1)).is_none() && path.exists());
    // A plan under another's name is not used.
    disk.put(&entry(2, 5));
    fs::copy(disk.folder().join(key(2).file_name()), &path).unwrap();
    assert!(disk.get(&key(1)).is_none());
}

#[test]
fn the_store_keeps_its_size_and_drops_what_was_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(dir.path(), 10_000);
    let age = |n: usize, seconds: u64| {
        let file = fs::File::options().write(true).open(dir.path().join(key(n).file_name())).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    for n in 0..4 {
        disk.put(&entry(n, 2000));
        age(n, 10_000 - 1000 * n as u64);
    }
    assert!(disk.get(&key(0)).is_some(), "using it makes it young");
    disk.put(&entry(4, 2000));
    let there: Vec<bool> = (0..5).map(|n| disk.get(&key(n)).is_some()).collect();
    assert_eq!(there, [true, false, true, true, true]);
    // What a dead writer left goes after an hour, what others put there stays.
    for (name, hours) in [(".writing-dead", 2), (".writing-alive", 0), ("notes.txt", 99)] {
        fs::write(dir.path().join(name), "x").unwrap();
        let file = fs::File::options().write(true).open(dir.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
    }
    disk.put(&entry(5, 10));
    let there = |name: &str| dir.path().join(name).exists();
    assert!(!there(".writing-dead") && there(".writing-alive") && there("notes.txt"));
    // One larger than the whole store is not kept, and does no harm.
    disk.put(&entry(6, 50_000));
    assert!(disk.get(&key(6)).is_none());
}

#[test]
fn places_that_cannot_be_used_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    for place in ["file", "file/below", "/proc/nowhere/store", "/dev/full"] {
        let disk = Disk::new(dir.path().join(place), 1000);
        disk.put(&entry(1, 10));
        assert!(disk.get(&key(1)).is_none());
        assert!(disk.list().is_ok_and(|l| l.is_empty()) || disk.list().is_err());
    }
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "x");
}

#[cfg(unix)]
#[test]
fn others_cannot_slip_in_plans() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(&dir);
    disk.put(&entry(1, 10));
    let path = disk.list().unwrap()[0].path.clone();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(disk.folder()).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(disk.get(&key(1)).is_none());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(disk.get(&key(1)).is_some());
    fs::set_permissions(disk.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(disk.get(&key(1)).is_none());
}

#[test]
fn bundles() {
    let dir = tempfile::tempdir().unwrap();
    let tuned = Entry { tuned: true, ..entry(1, 10) };
    let forwards = Bundle::new([entry(2, 5), tuned.clone(), entry(1, 99), entry(3, 5)]);
    let backwards = Bundle::new([entry(3, 5), entry(1, 99), tuned.clone(), entry(2, 5)]);
    assert_eq!(forwards.to_bytes().unwrap(), backwards.to_bytes().unwrap());
    assert_eq!(forwards.get(&key(1)), Some(&tuned));
    assert!(forwards.get(&key(9)).is_none());
    let path = dir.path().join("plans.fgb");
    forwards.write(&path).unwrap();
    assert_eq!(Bundle::read(&path).unwrap(), forwards);
    let text = Bundle::read(&dir.path().join("none")).unwrap_err().to_string();
    assert!(text.contains("none") && text.contains("cannot be read"), "{text}");
    assert!(forwards.write(&dir.path().join("no/such/folder")).is_err());
}

#[test]
fn loaded_plans_and_other_versions() {
    let mut mine = entry(100, 5);
    mine.key.text = "loaded_plans_and_other_versions".to_owned();
    load(Entry { tuned: true, ..mine.clone() });
    load(mine.clone());
    assert!(loaded(&mine.key).unwrap().tuned, "what was tuned stays");
    let other = Key { library: "cuDNN 9.14.0".to_owned(), ..mine.key.clone() };
    assert!(loaded(&other).is_none());
    assert_eq!(loaded::other_versions(&other), ["cuDNN 9.19.0"]);
}

/// What a child process of the tests below does.
#[test]
fn child() {
    let (Some(folder), Some(role)) = (std::env::var_os("FG_STORE"), std::env::var("FG_ROLE").ok()) else { return };
    let disk = Disk::new(folder, if role == "crowd" { 6_000 } else { 1 << 30 });
    for round in 0.. {
        if role == "crowd" && round == 150 {
            break;
        }
        let n = round % 5;
        disk.put(&entry(n, 1000 + n));
        if let Some(found) = disk.get(&key(n)) {
            assert_eq!(found, entry(n, 1000 + n));
        }
        if role == "killed" {
            disk.put(&entry(n + 10, 400_000));
        }
    }
}

fn spawn(folder: &std::path::Path, role: &str) -> std::process::Child {
    let exe = std::env::current_exe().unwrap();
    let mut command = Command::new(exe);
    command.args(["store::tests::child", "--exact", "--nocapture"]).env("FG_STORE", folder).env("FG_ROLE", role);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn eight_processes_write_and_evict_the_same_plans() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..8).map(|_| spawn(dir.path(), "crowd")).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let list = Disk::new(dir.path(), 1 << 20).list().unwrap();
    assert!(!list.is_empty() && list.iter().all(|s| matches!(s.content, Checked::Plan(_))), "{list:?}");
}

#[test]
fn writers_that_are_killed_leave_nothing_torn() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..12u64 {
        let mut child = spawn(dir.path(), "killed");
        std::thread::sleep(Duration::from_millis(30 + 7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        for stored in Disk::new(dir.path(), 1 << 30).list().unwrap() {
            assert!(matches!(stored.content, Checked::Plan(_)), "{stored:?}");
        }
    }
}

/// A file system that is full is played by a limit on the size of files, which only a process of its own can take.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ulimit -f 4; trap '' XFSZ; exec \"$0\" store::tests::full --exact --nocapture";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap()).env("FG_FULL", dir.path());
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let list = Disk::new(dir.path(), 1 << 20).list().unwrap();
    assert_eq!(list.len(), 1, "the small one fits, the large one left nothing: {list:?}");
    assert!(fs::read_dir(dir.path()).unwrap().count() == 1);
}

#[test]
fn full() {
    let Some(folder) = std::env::var_os("FG_FULL") else { return };
    let disk = Disk::new(folder, 1 << 20);
    disk.put(&entry(1, 100));
    disk.put(&entry(2, 100_000));
    assert_eq!(disk.get(&key(1)), Some(entry(1, 100)));
    assert!(disk.get(&key(2)).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
        let bytes = if magic { [&b"fgplan\r\n\x01\0\0\0"[..], &bytes].concat() } else { bytes };
        let _ = (Entry::from_bytes(&bytes), Bundle::from_bytes(&bytes));
    }
}
