//! `cache list`, `cache clear`, `cache verify`.

use crate::{Outcome, bytes};
use clap::Subcommand;
use fused_graph_core::Error;
use fused_graph_core::store::{Checked, Disk};

#[derive(Subcommand)]
pub(crate) enum What {
    /// The plans, last used first
    List,
    /// Remove all plans
    Clear,
    /// Read and check every plan
    Verify,
}

pub(crate) fn run(what: &What) -> Outcome {
    let Some(disk) = Disk::of_environment() else {
        println!("there is no store: FUSED_GRAPH_CACHE is off, or there is no home folder");
        return Ok(true);
    };
    let failed = |e: std::io::Error| Error::cache(format!("{}: {e}", disk.folder().display()));
    if let What::Clear = what {
        println!("{} plans removed from {}", disk.clear().map_err(failed)?, disk.folder().display());
        return Ok(true);
    }
    let list = disk.list().map_err(failed)?;
    let mut unusable = 0;
    for stored in &list {
        let ago = stored.used.elapsed().map_or(0, |d| d.as_secs() / 60);
        match &stored.content {
            Checked::Plan(entry) => {
                let tuned = if entry.tuned { ", tuned" } else { "" };
                let size = bytes(stored.bytes as usize);
                println!(
                    "{size:>9}  {ago:>6} min ago  {}  {} ({}{tuned})",
                    entry.function, entry.key.device, entry.key.library
                );
            }
            Checked::Unusable(why) => {
                unusable += 1;
                println!("{}: {why}", stored.path.display());
            }
        }
    }
    let total: u64 = list.iter().map(|s| s.bytes).sum();
    println!("{} plans, {} in {}", list.len() - unusable, bytes(total as usize), disk.folder().display());
    if matches!(what, What::Verify) && unusable > 0 {
        println!("{unusable} cannot be used; they are rebuilt when they are asked for");
        return Ok(false);
    }
    Ok(true)
}
