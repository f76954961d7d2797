//! `cargo xtask bundle`: what a GPU machine without Rust needs, in one folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{Executable, Role, Workspace};
use crate::harness::{self, Need};

/// The machines we measure on take 64 MiB, of which the repository itself is a part.
const LIMIT: u64 = 60 << 20;
const MARK: &str = ".fused-graph-bundle";
/// Data that tests and examples read at run time, below FUSED_GRAPH_ROOT. What is not there yet is left out.
const DATA: [&str; 3] = ["fixtures", "examples/data", "tests/graphs"];

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<()> {
    let out = match args {
        [] => workspace.root.join(".gpu"),
        [flag, folder] if flag == "--out" => PathBuf::from(folder),
        _ => bail!("`cargo xtask bundle` takes --out DIR alone, not `{}`", args.join(" ")),
    };
    let start = Instant::now();
    // `cargo test --examples` would make test harnesses of the examples, so they are built by themselves; only these packages have GPU tests.
    let packages = ["-p", "fused-graph", "-p", "fused-graph-cudnn", "--profile", "bundle"];
    let mut built = workspace.build_with(&["test", "--no-run", "--lib", "--tests", "--benches"], &packages)?;
    built.extend(workspace.build_with(&["build", "--examples"], &packages)?);
    workspace.build_with(&["build", "--bins"], &["-p", "fused-graph-cli", "--profile", "bundle"])?;
    make_empty(&out)?;
    command_line(&built, &out)?;
    let mut tests = 0;
    for executable in &built {
        tests += add(&out, executable)?;
    }
    for data in DATA {
        copy_tree(&workspace.root.join(data), &out.join("root").join(data))?;
    }
    fs::write(out.join("run.sh"), include_str!("run.sh"))?;
    fs::write(out.join("commit"), commit(workspace)?)?;
    report(&out, tests)?;
    println!(
        "{:.0} s. On the GPU machine: bash {}/run.sh tests|examples|bench",
        start.elapsed().as_secs_f64(),
        out.display()
    );
    Ok(())
}

/// Copies the command `fused-graph`, which cargo puts beside the folder of the examples.
fn command_line(built: &[Executable], out: &Path) -> Result<()> {
    let example = built.iter().find(|one| one.role == Role::Example).context("no examples were built")?;
    let profile = example.path.parent().and_then(Path::parent).context("an example in no folder")?;
    let program = profile.join("fused-graph");
    fs::copy(&program, out.join("fused-graph")).with_context(|| format!("copying {}", program.display()))?;
    Ok(())
}

/// Empties the folder, which must be one of ours.
fn make_empty(out: &Path) -> Result<()> {
    if out.exists() {
        let ours = out.join(MARK).exists() || fs::read_dir(out)?.next().is_none();
        ensure!(ours, "{} is not a bundle; name another folder, or remove it", out.display());
        fs::remove_dir_all(out)?;
    }
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    fs::write(out.join(MARK), "")?;
    Ok(())
}

/// Puts an executable into the bundle if it has work for a GPU; returns the number of its GPU tests.
fn add(out: &Path, executable: &Executable) -> Result<usize> {
    let (folder, name) = match executable.role {
        Role::Test => ("tests", executable.name().replace("::", ".")),
        Role::Example => ("examples", executable.target.clone()),
        Role::Bench => ("bench", executable.target.clone()),
    };
    let names =
        if executable.role == Role::Test { harness::ignored(executable)?.of(Need::Gpu).to_vec() } else { Vec::new() };
    if executable.role == Role::Test && names.is_empty() {
        return Ok(0);
    }
    let folder = out.join(folder);
    fs::create_dir_all(&folder)?;
    let path = folder.join(&name);
    fs::copy(&executable.path, &path).with_context(|| format!("copying {}", executable.path.display()))?;
    if !names.is_empty() {
        fs::write(folder.join(format!("{name}.list")), format!("{}\n", names.join("\n")))?;
    }
    Ok(names.len())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The commit that was built, marked if the working tree differs: numbers measured with a bundle name it.
fn commit(workspace: &Workspace) -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["describe", "--always", "--dirty", "--exclude=*"]);
    let output = git.output().context("running git")?;
    Ok(if output.status.success() { String::from_utf8(output.stdout)? } else { "unknown\n".to_owned() })
}

/// Prints the sizes, and fails above the limit.
fn report(out: &Path, tests: usize) -> Result<()> {
    let mut sizes = Vec::new();
    collect_sizes(out, &mut sizes)?;
    sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let total: u64 = sizes.iter().map(|(_, size)| size).sum();
    let megabytes = |size: u64| format!("{:8.2} MiB", size as f64 / f64::from(1 << 20));
    for (path, size) in sizes.iter().filter(|(_, size)| *size >= 100 << 10) {
        println!("{}  {}", megabytes(*size), path.strip_prefix(out)?.display());
    }
    println!("{}  in all, {} files, {tests} GPU tests", megabytes(total), sizes.len());
    ensure!(
        total <= LIMIT,
        "the bundle is larger than the {} MiB that travel to a GPU machine; the list above shows what is large",
        LIMIT >> 20
    );
    Ok(())
}

fn collect_sizes(folder: &Path, sizes: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_sizes(&path, sizes)?;
        } else {
            let size = fs::metadata(&path)?.len();
            sizes.push((path, size));
        }
    }
    Ok(())
}
