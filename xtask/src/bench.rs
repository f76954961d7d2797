//! `cargo xtask bench`: the benchmarks on this machine.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo::Workspace;

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<()> {
    let split = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let (wanted, passed_on) = (&args[..split], args.get(split + 1..).unwrap_or_default());
    let all = names(workspace)?;
    ensure!(!all.is_empty(), "no package of the workspace has a `[[bench]]` yet");
    for name in wanted {
        ensure!(all.contains(name), "there is no benchmark `{name}`; there are {}", all.join(", "));
    }
    let chosen = if wanted.is_empty() { &all[..] } else { wanted };
    for name in chosen {
        println!("\nbenchmark {name}");
        let mut command = workspace.cargo(&["bench", "--quiet", "--workspace", "--bench", name, "--"]);
        let status = command.args(passed_on).status().context("running cargo")?;
        ensure!(status.success(), "benchmark {name}: {status}");
    }
    Ok(())
}

/// The benchmarks of the workspace.
fn names(workspace: &Workspace) -> Result<Vec<String>> {
    let output = workspace
        .cargo(&["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let benches = targets.filter(|target| target["kind"][0] == "bench").filter_map(|target| target["name"].as_str());
    Ok(benches.map(str::to_owned).collect())
}
