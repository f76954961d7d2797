//! Plans that outlive a process, on a GPU: the store on disk, tuned choices, bundles, another cuDNN.

use crate::common::stored;
use fused_graph::prelude::*;
use std::process::Command;

#[fused_graph]
fn conv(x: &Tensor, w: &Tensor, b: &Tensor) -> (Tensor, Tensor) {
    let y = relu(conv2d(x, w, bias = b, padding = 1));
    (y, amax(y))
}

/// Its own kernel beside cuDNN's.
#[fused_graph(autotune)]
fn tuned(x: &Tensor, w: &Tensor) -> (Tensor, Tensor) {
    (gelu(matmul(x, w)), softplus(x))
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn bytes() {
    let dev = Device::cuda(0).unwrap();
    stored::bytes_and_back(&dev);
    stored::bytes_that_do_not_fit(&dev);
}

/// What a process does and prints: plans built and loaded, milliseconds for them, candidates timed, and a sum of its results.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn process() {
    if std::env::var_os("FG_STORE_TEST").is_none() {
        return;
    }
    let dev = Device::cuda(0).unwrap();
    let x = Tensor::randn_seeded([8, 64, 28, 28], DType::BF16, 1, &dev).unwrap().channels_last().unwrap();
    let w = Tensor::randn_seeded([64, 64, 3, 3], DType::BF16, 2, &dev).unwrap().channels_last().unwrap();
    let b = Tensor::randn_seeded([64], DType::BF16, 3, &dev).unwrap();
    // Context, handle and the kernels of the copies above are there; what follows is the plan.
    let warm = Tensor::zeros([1, 64, 1, 1], DType::BF16, &dev).unwrap().channels_last().unwrap();
    let one = Tensor::zeros([64, 64, 1, 1], DType::BF16, &dev).unwrap().channels_last().unwrap();
    #[fused_graph]
    fn warm_up(x: &Tensor, w: &Tensor) -> Tensor {
        conv2d(x, w)
    }
    let _ = warm_up(&warm, &one).unwrap();
    dev.synchronize().unwrap();
    let start = std::time::Instant::now();
    let (y, largest) = conv(&x, &w, &b).unwrap();
    dev.synchronize().unwrap();
    let first = start.elapsed().as_secs_f64() * 1e3;
    let (a, c) = (
        Tensor::randn_seeded([64, 128], DType::BF16, 4, &dev).unwrap(),
        Tensor::randn_seeded([128, 64], DType::BF16, 5, &dev).unwrap(),
    );
    let (g, s) = tuned(&a, &c).unwrap();
    let sum =
        |t: &Tensor| t.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap().iter().map(|v| *v as f64).sum::<f64>();
    let total = sum(&y) + sum(&largest) + sum(&g) + sum(&s);
    let (p, q) = (conv::stats(), tuned::stats());
    println!("@ {} {} {} {} {first:.2} {total:.1}", p.plans_built, p.plans_loaded, q.plans_built, q.plans_loaded);
}

fn run(vars: &[(&str, &str)]) -> (Vec<f64>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["store::process", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("FG_STORE_TEST", "1");
    command.env_remove("FUSED_GRAPH_BUNDLE").env_remove("FUSED_GRAPH_CACHE");
    command.envs(vars.iter().copied());
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let line = text.lines().find_map(|l| Some(l.split_once("@ ")?.1)).unwrap_or_else(|| panic!("{text}"));
    (line.split(' ').map(|n| n.parse().unwrap()).collect(), text.clone())
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn another_process_compiles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = [("FUSED_GRAPH_CACHE_DIR", dir.path().to_str().unwrap())];
    let (first, _) = run(&cache);
    let (second, _) = run(&cache);
    println!("first call {:.1} ms built, {:.1} ms from disk", first[4], second[4]);
    assert_eq!(first[..4], [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(second[..4], [0.0, 1.0, 0.0, 1.0], "a tuned choice too");
    assert_eq!(first[5], second[5], "the same values");
    let (off, _) = run(&[("FUSED_GRAPH_CACHE", "off"), cache[0]]);
    assert_eq!(off[..4], [1.0, 0.0, 1.0, 0.0]);
    // Damage every file: rebuilt, with the right values.
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
    let (damaged, _) = run(&cache);
    assert_eq!(damaged[..4], [1.0, 0.0, 1.0, 0.0]);
    // Eight processes at once on an empty store, then everything is there.
    std::fs::remove_dir_all(dir.path()).unwrap();
    let crowd: Vec<Vec<f64>> = std::thread::scope(|s| {
        (0..8).map(|_| s.spawn(|| run(&cache).0)).collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(crowd.iter().all(|r| (r[5] - first[5]).abs() <= 1e-2 * first[5].abs()), "{crowd:?}");
    assert_eq!(run(&cache).0[..4], [0.0, 1.0, 0.0, 1.0]);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn another_cudnn_builds_its_own() {
    let other = "/usr/lib/x86_64-linux-gnu";
    if !std::path::Path::new(other).join("libcudnn.so.9").exists() {
        println!("there is no second cuDNN here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let cache = ("FUSED_GRAPH_CACHE_DIR", dir.path().to_str().unwrap());
    let (here, _) = run(&[cache]);
    let (there, text) = run(&[cache, ("FUSED_GRAPH_CUDNN_DIR", other)]);
    assert_eq!(there[..4], [1.0, 0.0, 1.0, 0.0], "{text}");
    assert!((here[5] - there[5]).abs() <= 1e-2 * here[5].abs());
    // Both live side by side.
    assert_eq!(run(&[cache]).0[..4], [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(run(&[cache, ("FUSED_GRAPH_CUDNN_DIR", other)]).0[..4], [0.0, 1.0, 0.0, 1.0]);
}
