//! One call: arguments in, key, plan, launch.

use super::bound::{Arguments, Bound};
use super::build::{Build, CPU};
use super::key::Key;
use super::returns::in_order;
use super::{Attr, Plan, Returns, Site};
use crate::backend::Launch;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::explain::{Explain, PlanSource};
use crate::ir::{Graph, ScalarType, ValueId};
use crate::tensor::Tensor;
use crate::trace::Expr;
use crate::tune::TuneReport;
use smallvec::SmallVec;

/// A parameter as the trace sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Param {
    /// Present: position among the tensors.
    Tensor(u8),
    /// An optional tensor that is not there.
    Absent,
    /// A host scalar.
    Scalar(ScalarType),
    /// Something static.
    Attr,
}

/// One call of an annotated function under construction; the macro writes it.
#[must_use]
pub struct Call<'a, F = ()> {
    site: &'static Site,
    key: Key,
    params: SmallVec<[Param; 8]>,
    tensors: SmallVec<[&'a Tensor; 8]>,
    scalars: SmallVec<[f64; 4]>,
    body: F,
}

/// A host scalar: `f32` or `f64`.
pub trait HostScalar: Copy {
    /// Which of the two.
    const TYPE: ScalarType;
    /// The value.
    fn value(self) -> f64;
}

impl HostScalar for f32 {
    const TYPE: ScalarType = ScalarType::F32;
    fn value(self) -> f64 {
        self as f64
    }
}

impl HostScalar for f64 {
    const TYPE: ScalarType = ScalarType::F64;
    fn value(self) -> f64 {
        self
    }
}

impl<'a> Call<'a> {
    /// A call without arguments yet.
    #[inline]
    pub fn new(site: &'static Site) -> Self {
        Call {
            site,
            key: Key::default(),
            params: SmallVec::new(),
            tensors: SmallVec::new(),
            scalars: SmallVec::new(),
            body: (),
        }
    }

    /// The next parameter, a tensor.
    #[inline]
    pub fn tensor(mut self, t: &'a Tensor) -> Self {
        self.key.tensor(t);
        self.params.push(Param::Tensor(self.tensors.len() as u8));
        self.tensors.push(t);
        self
    }

    /// The next parameter, a tensor that may not be there.
    #[inline]
    pub fn optional(mut self, t: Option<&'a Tensor>) -> Self {
        match t {
            Some(t) => self.tensor(t),
            None => {
                self.key.absent();
                self.params.push(Param::Absent);
                self
            }
        }
    }

    /// The next parameter, a host scalar.
    #[inline]
    pub fn scalar<S: HostScalar>(mut self, value: S) -> Self {
        self.key.scalar(S::TYPE == ScalarType::F64);
        self.params.push(Param::Scalar(S::TYPE));
        self.scalars.push(value.value());
        self
    }

    /// The next parameter (or a const parameter), something static.
    #[inline]
    pub fn attr<A: Attr + ?Sized>(mut self, value: &A) -> Self {
        self.key.attr(value);
        self.params.push(Param::Attr);
        self
    }

    /// A type parameter.
    #[inline]
    pub fn type_param<T: 'static>(mut self) -> Self {
        self.key.type_param::<T>();
        self
    }

    /// The body, to be run if there is no plan yet.
    #[inline]
    pub fn trace<F, R>(self, body: F) -> Call<'a, F>
    where
        F: FnOnce(&Inputs) -> R,
        R: Returns,
    {
        let Call { site, key, params, tensors, scalars, .. } = self;
        Call { site, key, params, tensors, scalars, body }
    }
}

/// The parameters of a body.
#[derive(Debug)]
pub struct Inputs {
    pub(super) trace: u32,
    pub(super) values: SmallVec<[Option<ValueId>; 8]>,
}

impl Inputs {
    /// The tensor at a position of the parameter list.
    pub fn tensor(&self, position: usize) -> Expr {
        self.optional(position).unwrap_or(Expr::POISON)
    }

    /// The optional tensor at a position of the parameter list.
    pub fn optional(&self, position: usize) -> Option<Expr> {
        self.values.get(position).copied().flatten().map(|id| Expr::new(id, self.trace))
    }

    /// The host scalar at a position of the parameter list.
    pub fn scalar(&self, position: usize) -> Expr {
        self.tensor(position)
    }
}

impl<F, R> Call<'_, F>
where
    F: FnOnce(&Inputs) -> R,
    R: Returns,
{
    /// Runs the function: finds or builds its plan and launches it.
    #[inline]
    pub fn run(self) -> Result<R::Tensors> {
        let device = self.device()?;
        self.site.count_call();
        let Call { site, mut key, params, tensors, scalars, body } = self;
        key.device(device.id());
        let entry = match site.find(&key) {
            Some(entry) => entry,
            None => Build { site, params: &params, tensors: &tensors, scalars: &scalars, device }.entry(key, body)?.0,
        };
        let results = entry.executable.run(&Launch { device, tensors: &tensors, scalars: &scalars })?;
        R::tensors(&mut in_order(results, &entry.order).into_iter())
    }

    /// The call with its arguments fixed, and results of its own; nothing is launched.
    pub fn bind(self) -> Result<Bound<R::Tensors>> {
        let device = self.device()?;
        let Call { site, mut key, params, tensors, scalars, body } = self;
        key.device(device.id());
        let entry = match site.find(&key) {
            Some(entry) => entry,
            None => Build { site, params: &params, tensors: &tensors, scalars: &scalars, device }.entry(key, body)?.0,
        };
        Bound::new(entry, Arguments { site, device, params, tensors: &tensors, scalars: &scalars }, R::tensors)
    }

    /// The plan of these arguments, built if need be, not launched.
    pub fn plan(self) -> Result<Plan> {
        let device = self.device()?;
        let Call { site, mut key, params, tensors, scalars, body } = self;
        key.device(device.id());
        let (entry, fresh) = match site.find(&key) {
            Some(entry) => (entry, false),
            None => Build { site, params: &params, tensors: &tensors, scalars: &scalars, device }.entry(key, body)?,
        };
        let source = if fresh { entry.source } else { PlanSource::Memory };
        Ok(Plan::new(entry, source))
    }

    /// Times every engine for these arguments, which are only read, and keeps the fastest for the calls that follow.
    pub fn tune(self) -> Result<TuneReport> {
        let device = self.device()?;
        let Call { site, mut key, params, tensors, scalars, body } = self;
        key.device(device.id());
        Build { site, params: &params, tensors: &tensors, scalars: &scalars, device }.tune(key, body)
    }

    /// What becomes of the function for these arguments.
    pub fn explain(self) -> Result<Explain> {
        Ok(self.plan()?.explain())
    }

    /// The traced graph; nothing is built.
    pub fn graph(self) -> Result<Graph> {
        self.device()?;
        let Call { site, params, tensors, body, .. } = self;
        super::build::trace_graph(site, &params, &tensors, body).map(|(graph, _)| graph)
    }
}

impl<'a, F> Call<'a, F> {
    /// The one device of all tensors; its stream is that of the first.
    #[inline]
    fn device(&self) -> Result<&'a Device> {
        let Some((first, rest)) = self.tensors.split_first() else { return Ok(&CPU) };
        match rest.iter().position(|t| t.device() != first.device()) {
            None => Ok(first.device()),
            Some(i) => Err(self.device_mismatch(i + 1)),
        }
    }
    #[cold]
    fn device_mismatch(&self, position: usize) -> Error {
        let name = |position: usize| {
            let at = self.params.iter().position(|p| matches!(p, Param::Tensor(i) if *i as usize == position));
            at.and_then(|i| self.site.meta().params.get(i).copied()).unwrap_or("?")
        };
        Error::device(format!(
            "`{}`: all tensors must be on one device, but `{}` is on {} and `{}` on {}; move one with `.to(&device)`",
            self.site.meta().name,
            name(0),
            self.tensors[0].device(),
            name(position),
            self.tensors[position].device()
        ))
    }
}
