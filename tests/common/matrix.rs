//! Every operation × element type × layout × odd sizes against the oracle, on any device.

use fused_graph::{DType, Device, Result, Tensor};
use fused_graph_core::backend::{CompileRequest, Executable, Launch, Options};
use fused_graph_core::cpu::{self, oracle};
use fused_graph_core::ir::*;
use fused_graph_core::layout::Dims;
use std::sync::{Arc, Mutex};

/// How an argument lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    Contiguous,
    ChannelsLast,
    /// Every second element of a larger tensor.
    Strided,
    /// The first axis repeated, its stride 0.
    Broadcast,
}

pub const LAYOUTS: [Layout; 4] = [Layout::Contiguous, Layout::ChannelsLast, Layout::Strided, Layout::Broadcast];
pub const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
pub const SIZES: [i64; 5] = [1, 3, 7, 17, 33];

/// One comparison: what it is called, its arguments, and the graph over them.
pub struct Case {
    pub name: String,
    pub tensors: Vec<Tensor>,
    pub graph: Graph,
    pub options: Options,
    pub tolerance: f64,
}

/// Makes the arguments of a case.
pub struct Maker {
    device: Device,
    seed: u64,
}

impl Maker {
    pub fn new(device: &Device, seed: u64) -> Self {
        Maker { device: device.clone(), seed }
    }

    /// Normal numbers, or (`positive`) numbers from a quarter to two, on the device.
    pub fn tensor(&mut self, dims: &[i64], dtype: DType, layout: Layout, positive: bool) -> Tensor {
        self.seed += 1;
        let mut wide = dims.to_vec();
        match layout {
            Layout::Strided => *wide.last_mut().unwrap() *= 2,
            Layout::Broadcast => wide[0] = 1,
            _ => {}
        }
        let cpu = Device::CPU;
        let plain = if positive {
            let t = Tensor::rand_seeded(wide.as_slice(), DType::F32, self.seed, &cpu).unwrap();
            let v: Vec<f32> = t.to_vec::<f32>().unwrap().into_iter().map(|v| 0.25 + 1.75 * v).collect();
            Tensor::from_vec(v, wide.as_slice(), &cpu).unwrap().to_dtype(dtype).unwrap()
        } else {
            Tensor::randn_seeded(wide.as_slice(), DType::F32, self.seed, &cpu).unwrap().to_dtype(dtype).unwrap()
        };
        let t = plain.to(&self.device).unwrap();
        match layout {
            Layout::Contiguous => t,
            Layout::ChannelsLast if dims.len() >= 3 => t.channels_last().unwrap(),
            Layout::ChannelsLast => t,
            Layout::Strided => {
                let last = dims.len() - 1;
                let mut split = dims.to_vec();
                split.push(2);
                t.reshape(split.as_slice()).unwrap().slice(last as i64 + 1, 1..2).unwrap().squeeze(-1).unwrap()
            }
            Layout::Broadcast => t.expand(dims).unwrap(),
        }
    }
}

/// A graph over tensors.
pub fn graph_of(
    tensors: &[Tensor],
    build: impl FnOnce(&mut Graph, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Graph> {
    let mut g = Graph::new("case");
    let names = ["x", "w", "b", "c", "d", "e", "f", "g"];
    let ids: Vec<ValueId> = tensors
        .iter()
        .zip(names)
        .map(|(t, n)| {
            g.add_input(n, t.dtype(), *t.dims(), fused_graph_core::layout::normalise_strides(t.dims(), t.strides()))
        })
        .collect();
    let outputs = build(&mut g, &ids)?;
    g.set_outputs(outputs);
    Ok(g)
}

pub fn limit(dtype: DType, exact: bool) -> f64 {
    match dtype {
        DType::F32 if exact => 1e-5,
        DType::BF16 => 6e-3,
        _ => 1e-3,
    }
}

pub fn op(g: &mut Graph, op: Op, inputs: &[ValueId]) -> Result<ValueId> {
    g.add_node(op, inputs, SourceLoc::NONE)
}

pub fn compile(case: &Case, device: &Device) -> Result<Arc<dyn Executable>> {
    let graph = Arc::new(case.graph.clone());
    let alignments: Vec<u32> = case.tensors.iter().map(|t| t.alignment()).collect();
    let request = CompileRequest::new(&graph, &case.options, &alignments);
    match device.accelerator() {
        None => cpu::compile(&request),
        Some(a) => a.compile(&request),
    }
}

/// The largest relative distance of a result from the oracle's.
pub fn check(case: &Case, device: &Device, scalars: &[f64]) -> Result<f64> {
    let executable = compile(case, device)?;
    // Memory that results will lie in is full of NaN before.
    for &v in case.graph.outputs() {
        let value = case.graph.value(v);
        drop(Tensor::full(value.dims, f64::NAN, DType::F32, device)?);
        drop(Tensor::from_vec(
            vec![-1i8; value.dims.numel() * value.dtype.size()],
            [value.dims.numel() * value.dtype.size()],
            device,
        )?);
    }
    let refs: Vec<&Tensor> = case.tensors.iter().collect();
    let got = executable.run(&Launch { device, tensors: &refs, scalars })?;
    let arrays = case.tensors.iter().map(oracle::Array::from_tensor).collect::<Result<Vec<_>>>()?;
    let want = oracle::run(&case.graph, &arrays, scalars)?;
    let mut worst = 0f64;
    for (g, w) in got.iter().zip(&want) {
        assert_eq!(**g.dims(), *w.dims, "{}", case.name);
        worst = worst.max(distance(&oracle::Array::from_tensor(g)?.data, &w.data));
    }
    assert_eq!(got.len(), want.len(), "{}", case.name);
    Ok(worst)
}

/// ‖got − want‖ / ‖want‖; places where both are NaN or the same infinity count as equal.
fn distance(got: &[f64], want: &[f64]) -> f64 {
    let (mut num, mut den) = (0.0, 0.0);
    for (&g, &w) in got.iter().zip(want) {
        if (g.is_nan() && w.is_nan()) || g == w {
            den += if w.is_finite() { w * w } else { 0.0 };
            continue;
        }
        if !g.is_finite() || !w.is_finite() {
            return f64::INFINITY;
        }
        num += (g - w) * (g - w);
        den += w * w;
    }
    (num / den.max(1e-20)).sqrt()
}

/// Runs cases on several threads; gives the number that ran and what was wrong.
pub fn run_all(device: &Device, threads: usize, cases: Vec<Case>) -> (usize, Vec<String>) {
    let total = cases.len();
    let queue = Mutex::new(cases);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop();
                    let Some(case) = next else { return };
                    let line = match check(&case, device, &[]) {
                        Ok(d) if d <= case.tolerance => continue,
                        Ok(d) => format!("{}: off by {d:.2e}, limit {:.0e}", case.name, case.tolerance),
                        Err(e) => format!(
                            "{}: {}",
                            case.name,
                            e.to_string().replace('\n', " ").chars().take(300).collect::<String>()
                        ),
                    };
                    wrong.lock().unwrap().push(line);
                }
            });
        }
    });
    (total, wrong.into_inner().unwrap())
}

/// Modes whose operands must be positive to stay away from poles and branch points.
fn positive(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    matches!(mode, M::Sqrt | M::Rsqrt | M::Log | M::Reciprocal | M::Pow | M::Div | M::Mod | M::Tan)
}

/// Operands of a pointwise mode: the big one first, a repeated row second.
fn pointwise_case(m: &mut Maker, info: &PointwiseInfo, dtype: DType, layout: Layout, size: i64) -> Option<Case> {
    let dims = [2, 3, size, size + 1];
    let pos = positive(info.mode);
    let boolean = info.class == PointwiseClass::Logic;
    let ty = if boolean { DType::Bool } else { dtype };
    let x = m.tensor(&dims, ty, layout, pos);
    let b = m.tensor(&[size + 1], ty, Layout::Contiguous, pos);
    let c = m.tensor(&dims, DType::Bool, Layout::Contiguous, false);
    let tensors = vec![x, b, c];
    let graph = graph_of(&tensors, |g, v| {
        let p = Params {
            axis: 2,
            elu_alpha: 0.7,
            softplus_beta: 1.5,
            swish_beta: 1.3,
            slope: 0.1,
            upper_clip: 1.5,
            ..Params::DEFAULT
        };
        let pw = Op::Pointwise(info.mode, p);
        match info.arity {
            Arity::Unary => Ok(vec![op(g, pw, &v[..1])?]),
            // With the repeated operand second and first: the order matters.
            Arity::Binary => Ok(vec![op(g, pw, &[v[0], v[1]])?, op(g, pw, &[v[1], v[0]])?]),
            Arity::Ternary => Ok(vec![op(g, pw, &[v[2], v[0], v[1]])?]),
        }
    });
    let tolerance = limit(dtype, true);
    Some(Case {
        name: format!("{} {dtype} {layout:?} {size}", info.name),
        tensors,
        graph: graph.ok()?,
        options: Options::DEFAULT,
        tolerance,
    })
}

/// Every pointwise mode by itself.
pub fn pointwise(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 1000);
    let mut cases = Vec::new();
    for info in PointwiseMode::TABLE {
        for dtype in TYPES {
            for layout in LAYOUTS {
                for size in SIZES {
                    cases.extend(pointwise_case(&mut m, info, dtype, layout, size));
                }
            }
        }
    }
    cases
}

/// Every reduction over several axes, casts and views.
pub fn reductions(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 2000);
    let mut cases = Vec::new();
    for mode in ReduceMode::ALL {
        for dtype in TYPES {
            for layout in LAYOUTS {
                for size in SIZES {
                    let tensors = vec![m.tensor(&[2, 3, size, size + 1], dtype, layout, mode == ReduceMode::Prod)];
                    let graph = graph_of(&tensors, |g, v| {
                        let sets = [(0b1111, false), (0b1000, true), (0b1101, false), (0b0010, true)];
                        sets.iter()
                            .map(|&(axes, keepdim)| op(g, Op::Reduce(ReduceAttrs { mode, axes, keepdim }), v))
                            .collect()
                    });
                    let name = format!("{mode} {dtype} {layout:?} {size}");
                    cases.push(Case {
                        name,
                        tensors,
                        graph: graph.unwrap(),
                        options: Options::DEFAULT,
                        tolerance: 1e-4,
                    });
                }
            }
        }
    }
    for from in TYPES.into_iter().chain([DType::I32, DType::I8, DType::Bool, DType::F8E4M3, DType::F8E5M2]) {
        for layout in LAYOUTS {
            let tensors = vec![m.tensor(&[2, 3, 7, 5], from, layout, false)];
            let to = DType::ALL.into_iter().filter(|d| device.is_cpu() || *d != DType::F64);
            let graph = graph_of(&tensors, |g, v| to.map(|d| op(g, Op::Cast(d), v)).collect());
            let name = format!("casts of {from} {layout:?}");
            cases.push(Case { name, tensors, graph: graph.unwrap(), options: Options::DEFAULT, tolerance: 1e-7 });
        }
    }
    cases
}

fn conv_case(
    m: &mut Maker,
    dtype: DType,
    layout: Layout,
    size: i64,
    tf32: bool,
    build: impl FnOnce(&mut Graph, ValueId, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Case {
    let weights = if layout == Layout::ChannelsLast { layout } else { Layout::Contiguous };
    let tensors = vec![
        m.tensor(&[2, 8, size, size + 2], dtype, layout, false),
        m.tensor(&[16, 8, 3, 3], dtype, weights, false),
        m.tensor(&[16, 1, 1], dtype, Layout::Contiguous, false),
        m.tensor(&[2, 16, size, size + 2], dtype, weights, false),
    ];
    let graph = graph_of(&tensors, |g, v| {
        let attrs = ConvAttrs { pre_padding: Dims::splat(1, 2), post_padding: Dims::splat(1, 2), ..ConvAttrs::new(2) };
        let y = op(g, Op::Conv(attrs), &v[..2])?;
        build(g, y, v)
    });
    let options = Options { tf32, ..Options::DEFAULT };
    // A few sums of random signs are no larger than the rounding of their terms.
    let few = if size == 1 { 2.0 } else { 1.0 };
    Case { name: String::new(), tensors, graph: graph.unwrap(), options, tolerance: few * limit(dtype, !tf32) }
}

fn matmul_case(
    m: &mut Maker,
    dtype: DType,
    layout: Layout,
    size: i64,
    tf32: bool,
    build: impl FnOnce(&mut Graph, ValueId, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Case {
    let tensors = vec![
        m.tensor(&[3, size, 24], dtype, layout, false),
        m.tensor(&[3, 24, size + 1], dtype, layout, false),
        m.tensor(&[size + 1], dtype, Layout::Contiguous, false),
        m.tensor(&[3, size, size + 1], dtype, Layout::Contiguous, false),
    ];
    let graph = graph_of(&tensors, |g, v| {
        let y = op(g, Op::Matmul, &v[..2])?;
        build(g, y, v)
    });
    let options = Options { tf32, ..Options::DEFAULT };
    Case { name: String::new(), tensors, graph: graph.unwrap(), options, tolerance: limit(dtype, !tf32) }
}

/// Convolutions and matmuls in every layout and size, bare and with bias + ReLU + AMAX.
pub fn cores(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 3000);
    let mut cases = Vec::new();
    for dtype in TYPES {
        for layout in LAYOUTS {
            for size in SIZES {
                for tf32 in [true, false].into_iter().filter(|t| *t || dtype == DType::F32) {
                    let epilogue = |g: &mut Graph, y: ValueId, v: &[ValueId]| {
                        let y = op(g, Op::Pointwise(PointwiseMode::Add, Params::DEFAULT), &[y, v[2]])?;
                        let y = op(g, Op::Pointwise(PointwiseMode::Relu, Params::DEFAULT), &[y])?;
                        let amax = ReduceAttrs {
                            mode: ReduceMode::Amax,
                            axes: 0b1111 >> (4 - g.value(y).dims.len()),
                            keepdim: false,
                        };
                        Ok(vec![y, op(g, Op::Reduce(amax), &[y])?])
                    };
                    let label = format!("{dtype} {layout:?} {size}{}", if tf32 { "" } else { " without TF32" });
                    let mut push = |mut case: Case, what: &str| {
                        case.name = format!("{what} {label}");
                        cases.push(case);
                    };
                    push(conv_case(&mut m, dtype, layout, size, tf32, |_, y, _| Ok(vec![y])), "conv");
                    push(conv_case(&mut m, dtype, layout, size, tf32, epilogue), "conv + bias + relu, amax");
                    push(matmul_case(&mut m, dtype, layout, size, tf32, |_, y, _| Ok(vec![y])), "matmul");
                    push(matmul_case(&mut m, dtype, layout, size, tf32, epilogue), "matmul + bias + relu, amax");
                }
            }
        }
    }
    cases
}

/// Every pointwise mode behind a convolution and a matmul, with the computed value on either side.
pub fn epilogues(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 4000);
    let mut cases = Vec::new();
    for info in PointwiseMode::TABLE.iter().filter(|i| i.class != PointwiseClass::Logic) {
        for dtype in [DType::F16, DType::BF16] {
            let build = |g: &mut Graph, y: ValueId, v: &[ValueId]| {
                let p = Params {
                    axis: 1,
                    elu_alpha: 0.7,
                    softplus_beta: 1.5,
                    swish_beta: 1.3,
                    slope: 0.1,
                    upper_clip: 1.5,
                    ..Params::DEFAULT
                };
                let pw = Op::Pointwise(info.mode, p);
                // Away from poles: 1 + y²/64 for modes that need positive operands.
                let square = op(g, Op::Pointwise(PointwiseMode::Mul, Params::DEFAULT), &[y, y])?;
                let (small, one) = (g.add_const(1.0 / 64.0), g.add_const(1.0));
                let y = if positive(info.mode) {
                    let s = op(g, Op::Pointwise(PointwiseMode::Mul, Params::DEFAULT), &[square, small])?;
                    op(g, Op::Pointwise(PointwiseMode::Add, Params::DEFAULT), &[s, one])?
                } else {
                    y
                };
                let b = if positive(info.mode) {
                    op(g, Op::Pointwise(PointwiseMode::Exp, Params::DEFAULT), &[v[2]])?
                } else {
                    v[2]
                };
                match info.arity {
                    Arity::Unary => Ok(vec![op(g, pw, &[y])?]),
                    Arity::Binary => Ok(vec![op(g, pw, &[y, b])?, op(g, pw, &[b, y])?]),
                    Arity::Ternary => {
                        let mask = op(g, Op::Pointwise(PointwiseMode::CmpGt, Params::DEFAULT), &[y, b])?;
                        Ok(vec![op(g, pw, &[mask, y, v[3]])?])
                    }
                }
            };
            let loose = if matches!(
                info.mode,
                PointwiseMode::Pow
                    | PointwiseMode::Floor
                    | PointwiseMode::Ceil
                    | PointwiseMode::Mod
                    | PointwiseMode::Tan
            ) || info.class == PointwiseClass::Compare
            {
                0.2
            } else {
                0.0
            };
            for (what, mut case) in [
                ("conv", conv_case(&mut m, dtype, Layout::ChannelsLast, 7, true, build)),
                ("matmul", matmul_case(&mut m, dtype, Layout::Contiguous, 33, true, build)),
            ] {
                case.name = format!("{what} + {} {dtype}", info.name);
                case.tolerance = case.tolerance.max(loose);
                cases.push(case);
            }
        }
    }
    cases
}
