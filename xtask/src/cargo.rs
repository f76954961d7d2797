//! What cargo knows: where the workspace is, and which executables a build made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The workspace this xtask belongs to.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
}

/// The part a target plays, as far as the tasks tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Unit tests of a library or binary, or a file of `tests/`.
    Test,
    Example,
    Bench,
}

/// One executable of a build.
pub(crate) struct Executable {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) target: String,
    pub(crate) role: Role,
    pub(crate) path: PathBuf,
    pub(crate) manifest: PathBuf,
}

impl Executable {
    /// A name that tells it from every other executable of the workspace.
    pub(crate) fn name(&self) -> String {
        if self.package.replace('-', "_") == self.target {
            self.package.clone()
        } else {
            format!("{}::{}", self.package, self.target)
        }
    }

    /// A command that runs it as `cargo test` would: in its package's folder, with cargo's variables (trybuild reads them) and with the
    /// toolchain's libraries in reach (the unit tests of a procedural macro link to them).
    pub(crate) fn command(&self) -> Result<Command> {
        let folder = self.manifest.parent().context("a manifest lies in a folder")?;
        let mut command = Command::new(&self.path);
        command
            .current_dir(folder)
            .env("CARGO", cargo_path())
            .env("CARGO_MANIFEST_DIR", folder)
            .env("CARGO_MANIFEST_PATH", &self.manifest)
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_PKG_VERSION", &self.version)
            .env("LD_LIBRARY_PATH", library_path()?);
        Ok(command)
    }
}

fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn library_path() -> Result<OsString> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).output().context("running `rustc --print sysroot`")?;
    ensure!(output.status.success(), "`rustc --print sysroot` failed");
    let sysroot = String::from_utf8(output.stdout).context("the sysroot's path")?;
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::iter::once(Path::new(sysroot.trim()).join("lib")).chain(std::env::split_paths(&own));
    Ok(std::env::join_paths(folders)?)
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.parent().context("xtask lies in the workspace's folder")?.to_path_buf();
        ensure!(root.join("Cargo.toml").is_file(), "{} is gone; build xtask again", root.display());
        Ok(Self { root })
    }

    /// `cargo` in the root of the workspace.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo_path());
        command.current_dir(&self.root).args(args);
        command
    }

    /// Builds with `cargo test --no-run --workspace` and these arguments; returns what came out. Compiler messages go to the terminal.
    pub(crate) fn build(&self, args: &[&str]) -> Result<Vec<Executable>> {
        self.build_with(&["test", "--no-run", "--workspace"], args)
    }

    /// The same with a subcommand of the caller's.
    pub(crate) fn build_with(&self, subcommand: &[&str], args: &[&str]) -> Result<Vec<Executable>> {
        let mut command = self.cargo(subcommand);
        command.arg("--message-format=json-render-diagnostics");
        let output = command.args(args).stderr(Stdio::inherit()).output().context("running cargo")?;
        ensure!(output.status.success(), "the build failed");
        let text = String::from_utf8(output.stdout).context("cargo's messages")?;
        let mut found = Vec::new();
        for line in text.lines() {
            let message: Value = serde_json::from_str(line).with_context(|| format!("cargo's message {line}"))?;
            found.extend(executable(&message)?);
        }
        found.sort_by_key(Executable::name);
        Ok(found)
    }
}

/// The executable that a message of cargo's tells of, if it tells of one that the tasks run.
fn executable(message: &Value) -> Result<Option<Executable>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (Some("compiler-artifact"), Some(path)) = (message["reason"].as_str(), text(&message["executable"])) else {
        return Ok(None);
    };
    let tested = message["profile"]["test"].as_bool().unwrap_or(false);
    let role = match message["target"]["kind"][0].as_str() {
        Some("example") => Role::Example,
        Some("bench") => Role::Bench,
        _ if tested => Role::Test,
        _ => return Ok(None),
    };
    let (Some(target), Some(manifest)) = (text(&message["target"]["name"]), text(&message["manifest_path"])) else {
        bail!("cargo's message names no target: {message}");
    };
    let (package, version) = package_id(message["package_id"].as_str().unwrap_or_default(), Path::new(&manifest))?;
    Ok(Some(Executable { package, version, target, role, path: path.into(), manifest: manifest.into() }))
}

/// Name and version out of a package id: `path+file:///repo/core#fused-graph-core@0.1.0`, or `path+file:///repo/xtask#0.1.0` where the folder
/// carries the package's name.
fn package_id(id: &str, manifest: &Path) -> Result<(String, String)> {
    let (_, fragment) = id.rsplit_once('#').with_context(|| format!("package id `{id}`"))?;
    if let Some((name, version)) = fragment.split_once('@') {
        return Ok((name.to_owned(), version.to_owned()));
    }
    let folder = manifest.parent().and_then(Path::file_name).with_context(|| format!("package id `{id}`"))?;
    Ok((folder.to_string_lossy().into_owned(), fragment.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_ids_of_both_forms() {
        let manifest = Path::new("/repo/xtask/Cargo.toml");
        let pair = |id| package_id(id, manifest).unwrap();
        assert_eq!(pair("path+file:///repo/core#fused-graph-core@0.1.0"), ("fused-graph-core".into(), "0.1.0".into()));
        assert_eq!(pair("path+file:///repo/xtask#0.2.0"), ("xtask".into(), "0.2.0".into()));
        assert!(package_id("nonsense", manifest).is_err());
    }

    #[test]
    fn only_executables_of_the_three_roles_are_kept() {
        let message = |kind: &str, tested: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "executable": "/t/x", "profile": {"test": tested}, "manifest_path": "/repo/core/Cargo.toml",
                "target": {"kind": [kind], "name": "x"}, "package_id": "path+file:///repo/core#fused-graph-core@0.1.0",
            })
        };
        let role = |kind, tested| executable(&message(kind, tested)).unwrap().map(|found| found.role);
        assert_eq!(role("lib", true), Some(Role::Test));
        assert_eq!(role("test", true), Some(Role::Test));
        assert_eq!(role("example", false), Some(Role::Example));
        assert_eq!(role("bench", true), Some(Role::Bench));
        assert_eq!(role("bin", false), None);
    }
}
