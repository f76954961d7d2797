//! Where Python's packages lie, without running Python where that can be helped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::places::{entries, variable};

/// The python3 that a shell would run.
pub(super) fn on_path() -> Option<PathBuf> {
    std::env::split_paths(&variable("PATH")?).map(|folder| folder.join("python3")).find(|file| file.is_file())
}

/// The folders of packages of an installation or a virtual environment.
pub(super) fn packages_of_prefix(prefix: &Path) -> Vec<PathBuf> {
    ["lib", "lib64"]
        .iter()
        .flat_map(|lib| entries(&prefix.join(lib), "python3"))
        .flat_map(|python| [python.join("site-packages"), python.join("dist-packages")])
        .filter(|folder| folder.is_dir())
        .collect()
}

/// The folders of packages that this Python searches.
///
/// An executable lies in the folder `bin` of its installation: the packages lie beside that. A script, such as pyenv's,
/// says nothing by its place, so it is run.
pub(super) fn packages_of(python: &Path) -> Vec<PathBuf> {
    if is_script(python) {
        return ask(python);
    }
    let links = [Some(python.to_owned()), std::fs::canonicalize(python).ok()];
    let prefixes = links.iter().flatten().filter_map(|file| file.parent()?.parent());
    let mut packages: Vec<PathBuf> = prefixes.flat_map(packages_of_prefix).collect();
    if let Some(home) = variable("HOME") {
        packages.extend(packages_of_prefix(&PathBuf::from(home).join(".local")));
    }
    packages.extend(packages_of_prefix(Path::new("/usr/local")));
    let mut seen = std::collections::HashSet::new();
    packages.retain(|folder| seen.insert(folder.clone()));
    packages
}

fn is_script(file: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
}

fn ask(python: &Path) -> Vec<PathBuf> {
    let question = "import site; print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()]))";
    let output = Command::new(python).args(["-c", question]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let Ok(output) = output else { return vec![] };
    let answer = String::from_utf8_lossy(&output.stdout);
    answer.lines().map(PathBuf::from).filter(|folder| folder.is_dir()).collect()
}
