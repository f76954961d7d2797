//! Many processes, and processes to which something happens.

use crate::child::{ARGS, command};
use crate::{ROOMY, is_whole, names, path, put, stamped};
use fused_graph_core::store::{Bundle, Checked, Disk};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Runs a role in this executable to its end, which must be a good one.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && stdout.contains("1 passed"), "{status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Eight processes in one role at once.
fn eight(role: &str, folder: &Path) {
    let start = |number| {
        command(this(), role, folder, number).args(ARGS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..8).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn eight_processes_write_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    eight("same key", folder.path());
    let disk = Disk::new(folder.path(), ROOMY);
    assert!(is_whole(&disk.get(&stamped("a", 0, 300_000).key).unwrap(), "a", 300_000));
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn eight_processes_write_many_keys_and_evict() {
    let folder = tempfile::tempdir().unwrap();
    eight("share", folder.path());
    let disk = Disk::new(folder.path(), 200_000);
    assert!(put(&disk, &stamped("g", 1, 50_000)));
    let reports = disk.list().unwrap();
    assert!(reports.iter().all(|report| matches!(report.content, Checked::Plan(_))), "{reports:?}");
    let total: u64 = reports.iter().map(|report| report.bytes).sum();
    assert!((50_000..=200_000).contains(&total), "{total} bytes");
    assert_eq!(names(folder.path()).len(), reports.len(), "nothing unfinished is left");
}

/// Every entry is whole, and how many unfinished files there are.
fn unfinished(disk: &Disk) -> usize {
    for name in ["a", "b"] {
        if let Some(entry) = disk.get(&stamped(name, 0, 4 << 20).key) {
            assert!(is_whole(&entry, name, 4 << 20));
        }
    }
    let reports = disk.list().unwrap();
    assert!(reports.iter().all(|report| matches!(report.content, Checked::Plan(_))), "{reports:?}");
    names(disk.folder()).len() - reports.len()
}

#[test]
fn a_writer_killed_at_any_point_leaves_whole_entries() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path(), ROOMY);
    for round in 0..60 {
        let mut child =
            command(this(), "write for ever", folder.path(), 0).args(ARGS).stdout(Stdio::null()).spawn().unwrap();
        // Once it writes, and at another point of it every time.
        let known = names(folder.path());
        while names(folder.path()).iter().all(|name| !name.starts_with(".writing-") || known.contains(name)) {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(300 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        if unfinished(&disk) >= 5 {
            break;
        }
    }
    assert!(unfinished(&disk) >= 5, "no writer was killed while it wrote");
    for name in names(folder.path()) {
        let file = fs::File::options().write(true).open(folder.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }
    assert!(put(&disk, &stamped("c", 1, 100)));
    assert_eq!(unfinished(&disk), 0, "swept");
}

/// A shell that starts this executable under a limit for the size of a file.
#[cfg(unix)]
fn limited(script: &str, role: &str, folder: &Path) -> Command {
    let mut command = command("sh", role, folder, 0);
    command.args(["-c", &format!("{script}; exec \"$0\" \"$@\"")]).arg(this()).args(ARGS);
    command
}

/// Killed by the kernel in the middle of a write: that it is the middle is certain here.
#[cfg(unix)]
#[test]
fn a_writer_killed_in_the_middle_leaves_an_unfinished_file() {
    use std::os::unix::process::ExitStatusExt;
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path(), ROOMY);
    disk.put(&stamped("a", 7, 4 << 20));
    let status = limited("ulimit -c 0; ulimit -f 100", "write for ever", folder.path()).output().unwrap().status;
    assert!(status.signal().is_some(), "{status}");
    assert_eq!(unfinished(&disk), 1);
    assert_eq!(disk.get(&stamped("a", 0, 4 << 20).key), Some(stamped("a", 7, 4 << 20)));
}

/// With the signal ignored a write beyond the limit fails like one to a full disk, after a part was written.
#[cfg(unix)]
#[test]
fn writes_that_fail_half_way_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(&mut limited("trap '' XFSZ; ulimit -f 100", "fill", folder.path()));
    assert!(said.contains("File too large"), "{said}");
}

/// On a file system of 256 kB where this user may mount one, which takes user namespaces; elsewhere the limit stands in.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut small = command("unshare", "fill", folder.path(), 0);
    let script = "mount -t tmpfs -o size=256k,mode=700 none \"$STORE_TEST_FOLDER\" || exit 77; exec \"$0\" \"$@\"";
    small.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(this()).args(ARGS);
    let output = small.output();
    match output {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("1 passed") && said.contains("No space left on device"), "{said}");
        }
        // 101 is a test that failed; `unshare` and the script fail otherwise.
        Ok(output) if output.status.code() == Some(101) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        _ => {
            eprintln!("no file system could be mounted: a limit for the size of a file stands in");
            run(&mut limited("trap '' XFSZ; ulimit -f 100", "fill", folder.path()));
        }
    }
}

/// Permissions do not bind root, so as root another user does it, from a copy of this executable where that user can reach it.
#[cfg(unix)]
#[test]
fn what_may_not_be_written_or_read_is_one_warning() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let root = tempfile::tempdir().unwrap();
    allow(root.path(), 0o755);
    let folder = root.path().join("store");
    let disk = Disk::new(&folder, ROOMY);
    disk.put(&stamped("a", 1, 100));
    let file = path(&disk, &stamped("a", 1, 100).key);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        [&folder, &file].iter().for_each(|path| std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap());
    }
    let copy = root.path().join("test");
    fs::copy(this(), &copy).unwrap();
    allow(&copy, 0o755);
    for (role, mode) in [("only read", 0o555), ("see nothing", 0o000)] {
        allow(&folder, mode);
        let mut child = command(&copy, role, &folder, 0);
        if is_root {
            child.uid(65534).gid(65534);
        }
        run(child.args(ARGS).current_dir("/"));
    }
    allow(&folder, 0o755);
    assert_eq!(names(&folder).len(), 1);
}

/// What becomes of an entry under these variables.
fn told(variables: &[(&str, &Path)]) -> String {
    let mut child = command(this(), "environment", Path::new("/"), 0);
    for name in
        ["FUSED_GRAPH_CACHE", "FUSED_GRAPH_CACHE_DIR", "FUSED_GRAPH_CACHE_SIZE", "FUSED_GRAPH_BUNDLE", "XDG_CACHE_HOME"]
    {
        child.env_remove(name);
    }
    let said = run(child.args(ARGS).envs(variables.iter().copied()));
    // The harness writes `test child::child ... ` in front.
    said.lines().find_map(|line| line.split_once("in ")).expect("no line tells").1.to_owned()
}

#[test]
fn the_environment_is_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let (home, elsewhere) = (folder.path(), folder.path().join("elsewhere"));
    let (off, size) = (("FUSED_GRAPH_CACHE", Path::new("off")), |text| ("FUSED_GRAPH_CACHE_SIZE", Path::new(text)));
    let here = ("FUSED_GRAPH_CACHE_DIR", &*elsewhere);
    let default = home.join(".cache/fused-graph");
    assert_eq!(told(&[("HOME", home)]), format!("Some({default:?}), loaded false, found true, 0 warnings"));
    assert_eq!(names(&default).len(), 1);
    assert_eq!(told(&[("HOME", home), off, here]), "None, loaded false, found false, 0 warnings");
    let elsewhere = format!("Some({elsewhere:?}), loaded false, found");
    assert_eq!(told(&[here, size("10")]), format!("{elsewhere} false, 1 warnings"));
    assert_eq!(told(&[here, size("0.1 GiB")]), format!("{elsewhere} true, 1 warnings"));
    assert_eq!(told(&[here, size("1 MiB")]), format!("{elsewhere} true, 0 warnings"));
    assert_eq!(told(&[here, size("1KiB")]), format!("{elsewhere} true, 0 warnings"));
    assert_eq!(
        told(&[here, size("100B")]),
        format!("{elsewhere} true, 1 warnings"),
        "found, and too large to be written"
    );
}

#[test]
fn a_home_that_is_missing_is_one_warning() {
    assert_eq!(told(&[("HOME", Path::new("not/absolute"))]), "None, loaded false, found false, 1 warnings");
    let said = told(&[("HOME", Path::new("/dev/null/home"))]);
    assert!(said.contains("/dev/null/home/.cache/fused-graph") && said.contains("found false"), "{said}");
}

/// Variables are bytes, and so are paths.
#[cfg(unix)]
#[test]
fn a_folder_whose_name_is_not_utf_8_works() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    let said = told(&[("FUSED_GRAPH_CACHE_DIR", &odd)]);
    assert!(said.ends_with("loaded false, found true, 0 warnings"), "{said}");
    assert_eq!(names(&odd).len(), 1);
}

#[test]
fn bundles_of_the_environment_are_loaded_and_one_that_is_missing_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("plans");
    Bundle::new([stamped("a", 1, 100)]).write(&bundle).unwrap();
    let list = std::env::join_paths([folder.path().join("none"), bundle]).unwrap();
    let off = ("FUSED_GRAPH_CACHE", Path::new("off"));
    let said = told(&[off, ("FUSED_GRAPH_BUNDLE", Path::new(&list))]);
    assert_eq!(said, "None, loaded true, found false, 1 warnings");
    assert_eq!(told(&[off, ("FUSED_GRAPH_BUNDLE", Path::new(""))]), "None, loaded false, found false, 0 warnings");
}
