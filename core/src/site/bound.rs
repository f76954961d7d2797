//! Calls with fixed buffers.

use super::cache::Entry;
use super::call::Param;
use super::captured::Captured;
use super::returns::{Collect, in_order};
use super::{Site, fits};
use crate::backend::{BoundLaunch, Launch, Results};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ir::ScalarType;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A call of an annotated function with its arguments and results fixed: `f::bind(…)`.
///
/// It holds the argument tensors, owns its results and whatever memory lies between kernels. [`launch`](Self::launch) looks nothing up, allocates nothing
/// and writes the same results each time; [`capture`](Self::capture) makes a CUDA graph of it. What is in the results before the first launch does not
/// matter. Two bound calls share nothing but the plan. A call keeps the plan that it was bound with: after `f::tune` or `f::clear`, bind again.
///
/// ```
/// use fused_graph::prelude::*;
///
/// #[fused_graph]
/// fn affine(x: &Tensor, b: &Tensor, alpha: f32) -> Tensor {
///     relu(alpha * x + b)
/// }
///
/// # fn main() -> fused_graph::Result<()> {
/// let dev = Device::cpu();
/// let x = Tensor::from_slice(&[1.0_f32, -2.0], [1, 2], &dev)?;
/// let b = Tensor::ones([1, 2], DType::F32, &dev)?;
/// let mut call = affine::bind(&x, &b, 2.0)?;
/// call.launch()?;
/// assert_eq!(call.outputs().to_vec::<f32>()?, [3.0, 0.0]);
///
/// x.write(&[5.0_f32, 6.0])?; // other values in the same buffer
/// call.set_scalar("alpha", 1.0)?; // another scalar
/// call.set_tensor("b", &Tensor::zeros([1, 2], DType::F32, &dev)?)?; // another buffer
/// call.launch()?;
/// assert_eq!(call.outputs().to_vec::<f32>()?, [5.0, 6.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Streams
///
/// Launches are queued on the stream of the first tensor. Tensors of other streams of the same GPU are allowed: each launch waits for the work on those
/// streams, and they wait for it, through events that were made when the call was bound.
pub struct Bound<T = Tensor> {
    outputs: T,
    collect: Collect<T>,
    fixed: Fixed,
}

/// A bound call whatever the form of its results, for graphs of several calls: [`Captured::of`]. Implemented by [`Bound`] alone.
pub trait BoundCall: sealed::Sealed {}

impl<T> BoundCall for Bound<T> {}

pub(super) mod sealed {
    pub trait Sealed {
        #[doc(hidden)]
        fn fixed(&self) -> &super::Fixed;
    }
}

impl<T> sealed::Sealed for Bound<T> {
    fn fixed(&self) -> &Fixed {
        &self.fixed
    }
}

/// Everything of a bound call but the form of its results.
#[derive(Debug)]
pub struct Fixed {
    site: &'static Site,
    entry: Arc<Entry>,
    pub(super) device: Device,
    params: SmallVec<[Param; 8]>,
    tensors: Vec<Tensor>,
    /// Of the tensors as they were bound.
    alignments: Vec<u32>,
    scalars: Vec<f64>,
    /// As the executable gives them.
    results: Results,
    /// Whether each result has its memory to itself and fills it.
    whole: Vec<bool>,
    pub(super) launch: Box<dyn BoundLaunch>,
    /// How often anything was changed: a graph compares it with what it captured.
    pub(super) revision: Arc<AtomicU64>,
}

/// What a call hands over to be bound.
pub(super) struct Arguments<'a> {
    pub(super) site: &'static Site,
    pub(super) device: &'a Device,
    pub(super) params: SmallVec<[Param; 8]>,
    pub(super) tensors: &'a [&'a Tensor],
    pub(super) scalars: &'a [f64],
}

impl<T> Bound<T> {
    pub(super) fn new(entry: Arc<Entry>, from: Arguments<'_>, collect: Collect<T>) -> Result<Self> {
        let Arguments { site, device, params, tensors, scalars } = from;
        let results = entry.executable.results(device)?;
        let launch = Arc::clone(&entry.executable).bind(&Launch { device, tensors, scalars }, &results)?;
        let fixed = Fixed {
            site,
            device: device.clone(),
            params,
            alignments: tensors.iter().map(|t| t.alignment()).collect(),
            tensors: tensors.iter().map(|&t| t.clone()).collect(),
            scalars: scalars.to_vec(),
            whole: (0..results.len()).map(|i| is_whole(&results, i)).collect(),
            results,
            launch,
            revision: Arc::default(),
            entry,
        };
        Ok(Bound { outputs: collect(&mut fixed.in_order().into_iter())?, collect, fixed })
    }

    /// Computes the results anew: queues the kernels, on the CPU runs them.
    ///
    /// Works inside a capture that the caller started on the stream: the call then becomes part of the caller's graph.
    pub fn launch(&mut self) -> Result<()> {
        self.fixed.launch.launch()
    }

    /// The results, in the form in which the function returns them. Every launch and replay writes to these tensors and to clones of them.
    pub fn outputs(&self) -> &T {
        &self.outputs
    }

    /// Binds another tensor to a parameter. It must suit the plan: same dims, strides, element type and device, and an address that is aligned as well.
    ///
    /// If it is refused nothing has changed. A graph that was captured before refuses to be replayed until it is [updated](Captured::update).
    pub fn set_tensor(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        self.fixed.set_tensor(name, tensor)
    }

    /// Gives a host scalar another value. As [`set_tensor`](Self::set_tensor).
    pub fn set_scalar(&mut self, name: &str, value: impl Into<f64>) -> Result<()> {
        self.fixed.set_scalar(name, value.into())
    }

    /// Makes a tensor of the caller's the result at a position, counted from 0 through nested tuples and arrays. It must be like the one it replaces, start
    /// at a multiple of 256 bytes and share no memory with an argument or another result. As [`set_tensor`](Self::set_tensor).
    ///
    /// ```
    /// # use fused_graph::prelude::*;
    /// # #[fused_graph]
    /// # fn double(x: &Tensor) -> Tensor { x + x }
    /// # fn main() -> fused_graph::Result<()> {
    /// let x = Tensor::ones([1, 2], DType::F32, &Device::cpu())?;
    /// let all = Tensor::zeros([2, 2], DType::F32, &Device::cpu())?;
    /// let mut call = double::bind(&x)?;
    /// call.set_output(0, &all.narrow(0, 1, 1)?)?; // into the second row
    /// call.launch()?;
    /// assert_eq!(all.to_vec::<f32>()?, [0.0, 0.0, 2.0, 2.0]);
    /// assert!(call.set_tensor("x", &all.narrow(0, 1, 1)?).is_err()); // it is written to
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_output(&mut self, position: usize, tensor: &Tensor) -> Result<()> {
        self.fixed.set_output(position, tensor)?;
        self.outputs = (self.collect)(&mut self.fixed.in_order().into_iter())?;
        Ok(())
    }

    /// Captures the call as it is now in a CUDA graph of its own; on the CPU in an object that runs it. See [`Captured`].
    pub fn capture(&self) -> Result<Captured> {
        Captured::of(&[self])
    }
}

impl Fixed {
    pub(super) fn name(&self) -> &'static str {
        self.site.meta().name
    }

    fn in_order(&self) -> Results {
        in_order(self.results.clone(), &self.entry.order)
    }

    /// Makes the launch be with these tensors and scalars.
    fn rebind(&mut self, tensors: Vec<Tensor>, scalars: Vec<f64>, results: Results) -> Result<()> {
        {
            let tensors: SmallVec<[&Tensor; 8]> = tensors.iter().collect();
            self.launch.rebind(&Launch { device: &self.device, tensors: &tensors, scalars: &scalars }, &results)?;
        }
        (self.tensors, self.scalars, self.results) = (tensors, scalars, results);
        self.revision.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn set_tensor(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        let at = match self.param(name) {
            Some(Param::Tensor(i)) => i as usize,
            Some(Param::Absent) => {
                let text = format!("`{}` was bound without `{name}`; bind again with it", self.name());
                return Err(Error::argument(text));
            }
            _ => return Err(self.no_such("tensor", name, |p| matches!(p, Param::Tensor(_)))),
        };
        let what = format!("`{}` was bound to `{name}`", self.name());
        fits(&what, &self.tensors[at], self.alignments[at], tensor)?;
        if let Some(i) = self.in_order().iter().position(|r| r.overlaps(tensor)) {
            return Err(self.shared(&format!("`{name}`"), i));
        }
        let mut tensors = self.tensors.clone();
        tensors[at] = tensor.clone();
        self.rebind(tensors, self.scalars.clone(), self.results.clone())
    }

    fn set_scalar(&mut self, name: &str, value: f64) -> Result<()> {
        let is_scalar = |p: &&Param| matches!(p, Param::Scalar(_));
        let position = self.site.meta().params.iter().position(|p| *p == name);
        let Some(Param::Scalar(ty)) = position.and_then(|at| self.params.get(at)) else {
            return Err(self.no_such("host scalar", name, |p| is_scalar(&p)));
        };
        let value = if *ty == ScalarType::F32 { value as f32 as f64 } else { value };
        let at = self.params.iter().take(position.unwrap_or(0)).filter(is_scalar).count();
        let mut scalars = self.scalars.clone();
        scalars[at] = value;
        self.rebind(self.tensors.clone(), scalars, self.results.clone())
    }

    fn set_output(&mut self, position: usize, tensor: &Tensor) -> Result<()> {
        let Some(&at) = self.entry.order.get(position) else {
            let count = self.entry.order.len();
            return Err(Error::argument(format!(
                "`{}` has {count} results, counted from 0, not {position}",
                self.name()
            )));
        };
        let what = format!("result {position} of `{}` was bound", self.name());
        fits(&what, &self.results[at], 256, tensor)?;
        if !self.whole[at] {
            return Err(Error::layout(format!(
                "result {position} of `{}` is a view of memory that holds more than it; copy it with `copy_from` after the launch",
                self.name()
            )));
        }
        if !crate::layout::is_distinct(tensor.dims(), tensor.strides()) {
            return Err(Error::layout(format!(
                "several elements of {tensor:?} share a place, so it cannot be a result"
            )));
        }
        let name = |i: usize| {
            self.site
                .meta()
                .params
                .iter()
                .zip(&self.params)
                .find(|(_, p)| matches!(p, Param::Tensor(t) if *t as usize == i))
        };
        if let Some(i) = self.tensors.iter().position(|t| t.overlaps(tensor)) {
            return Err(self.shared(&format!("`{}`", name(i).map_or("?", |(n, _)| n)), position));
        }
        if (0..self.results.len()).any(|i| i != at && self.results[i].overlaps(tensor)) {
            return Err(self.shared("another result", position));
        }
        let mut results = self.results.clone();
        results[at] = tensor.clone();
        self.rebind(self.tensors.clone(), self.scalars.clone(), results)
    }

    fn param(&self, name: &str) -> Option<Param> {
        let at = self.site.meta().params.iter().position(|p| *p == name)?;
        self.params.get(at).copied()
    }

    #[cold]
    fn no_such(&self, kind: &str, name: &str, is: impl Fn(&Param) -> bool) -> Error {
        let named = self.site.meta().params.iter().zip(&self.params).filter(|(_, p)| is(p));
        let list: Vec<String> = named.map(|(n, _)| format!("`{n}`")).collect();
        let there = if list.is_empty() { "it has none".to_owned() } else { format!("it has {}", list.join(", ")) };
        Error::argument(format!("`{}` has no {kind} `{name}`: {there}", self.name()))
    }

    #[cold]
    fn shared(&self, what: &str, result: usize) -> Error {
        Error::argument(format!(
            "`{}`: {what} shares memory with result {result}, which a launch writes; give one of them memory of its own",
            self.name()
        ))
    }
}

/// Whether a result has its memory to itself and fills it.
fn is_whole(results: &[Tensor], at: usize) -> bool {
    results[at].fills_its_memory() && (0..results.len()).all(|i| i == at || !results[i].overlaps(&results[at]))
}

impl<T: fmt::Debug> fmt::Debug for Bound<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bound `{}` with results {:?}", self.fixed.name(), self.outputs)
    }
}
