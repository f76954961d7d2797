//! `doctor`: what is here, and whether it works.

use crate::Outcome;
use fused_graph_core::backend::Options;
use fused_graph_core::backend::{CompileRequest, Launch};
use fused_graph_core::record::RecordedCall;
use fused_graph_core::store::Disk;
use fused_graph_core::{DType, Device, Error, Tensor};
use fused_graph_cudnn::gpu::CudaDevice;
use fused_graph_cudnn::library::{Library, driver_present};
use fused_graph_cudnn::{bake, gpu};
use std::path::Path;
use std::sync::Arc;

/// A matmul with bias, activation and AMAX.
const GRAPH: &str = "graph \"doctor\" {
  x = input f16 [16, 16]
  w = input f16 [16, 16]
  b = input f16 [16]
  %3 = matmul x, w
  %4 = add %3, b
  y = relu %4
  m = amax y (axes [0, 1])
  return y, m
}";

pub(crate) fn run(device_json: Option<&Path>) -> Outcome {
    if let Some(path) = device_json {
        return write_properties(path);
    }
    let mut well = true;
    // Asked first: a stand-in for the driver is loaded where there is none.
    let live = driver_present();
    let library =
        if live { Library::for_device().or_else(|_| Library::for_planning()) } else { Library::for_planning() };
    match &library {
        Ok(library) => println!("{}", library.report()),
        Err(error) => {
            well = false;
            println!("{error}");
        }
    }
    match Disk::of_environment() {
        Some(disk) => println!("plans on disk: {}", disk.folder().display()),
        None => println!("plans on disk: none (FUSED_GRAPH_CACHE is off, or there is no home folder)"),
    }
    if library.is_ok() {
        well &= report("a fused 16×16 matmul compiled for an H200", compiled());
    }
    match Device::cuda(0) {
        Ok(device) => {
            println!("GPU 0: {device}");
            well &= report("the same run on GPU 0 and compared", ran(&device));
        }
        Err(error) => println!("no GPU to run on: {}; functions run on the CPU", error.message()),
    }
    Ok(well)
}

fn report(what: &str, result: Result<String, Error>) -> bool {
    match &result {
        Ok(words) => println!("{what}: {words}"),
        Err(error) => println!("{what}: failed: {error}"),
    }
    result.is_ok()
}

fn call() -> Result<RecordedCall, Error> {
    let graph = Arc::new(GRAPH.parse()?);
    Ok(RecordedCall { function: "doctor".to_owned(), options: Options::DEFAULT, alignments: vec![256; 3], graph })
}

fn compiled() -> Result<String, Error> {
    let explain = bake::explain(&call()?, "h200")?;
    Ok(format!("{} kernel, {}", explain.kernels.len(), explain.kernels[0].engine))
}

/// Runs it on the GPU and on the CPU.
fn ran(device: &Device) -> Result<String, Error> {
    let call = call()?;
    let tensors = [[16, 16].as_slice(), &[16, 16], &[16]].map(|dims| Tensor::randn(dims, DType::F16, &Device::CPU));
    let [x, w, b] = tensors;
    let here = [x?, w?, b?];
    let there = here.iter().map(|t| t.to(device)).collect::<Result<Vec<_>, Error>>()?;
    let request = CompileRequest::new(&call.graph, &call.options, &call.alignments);
    let Some(accelerator) = device.accelerator() else { return Err(Error::device("no GPU")) };
    let on_gpu = accelerator.compile(&request)?;
    let on_cpu = fused_graph_core::cpu::compile(&request)?;
    let (a, b): (Vec<&Tensor>, Vec<&Tensor>) = (there.iter().collect(), here.iter().collect());
    let got = on_gpu.run(&Launch { device, tensors: &a, scalars: &[] })?;
    let want = on_cpu.run(&Launch { device: &Device::CPU, tensors: &b, scalars: &[] })?;
    let f32s = |t: &Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
    let (got, want) = (f32s(&got[0])?, f32s(&want[0])?);
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| (x as f64).powi(2)).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(&want).map(|(a, b)| a - b)) / norm(&mut want.iter().copied());
    if error <= 2e-3 {
        return Ok(format!("right, {error:.0e} of the norm off"));
    }
    Err(Error::cuda(format!("wrong values: {error:.1e} of the norm off")))
}

fn write_properties(path: &Path) -> Outcome {
    let json = gpu::properties(0)?;
    if path == Path::new("-") {
        println!("{json}");
        return Ok(true);
    }
    std::fs::write(path, json).map_err(|e| Error::argument(format!("{}: {e}", path.display())))?;
    println!("{}: for `fused-graph bake --target {}`", path.display(), path.display());
    Ok(true)
}
