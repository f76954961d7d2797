//! Operations as a name and named attributes, there and back: the one place that knows the text form of each operation.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{
    ConvAttrs, NormAttrs, NormMode, NormPart, Op, Params, PointwiseMode, PoolAttrs, PoolMode, PoolPart, ReduceAttrs,
    ReduceMode, SdpaAttrs, SdpaOperand, SdpaPart, SoftmaxAttrs, ViewOp,
};
use crate::layout::{Dims, MAX_RANK};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Int(i64),
    Float(f64),
    Dims(Dims),
    Word(String),
    /// Present or not.
    Flag,
}

pub(super) type Attributes = Vec<(&'static str, Attribute)>;

/// The attributes of an operation that differ from their defaults.
pub(super) fn of(op: &Op) -> Attributes {
    match op {
        Op::Conv(a) => conv(a),
        Op::Matmul => Vec::new(),
        Op::Norm(n) => {
            let mut list = vec![axes(n.axes)];
            list.extend(n.bias.then_some(("bias", Attribute::Flag)));
            list.extend((n.part != NormPart::Y).then(|| ("part", Attribute::Word(n.part.name().to_owned()))));
            list
        }
        Op::Sdpa(a) => sdpa(a),
        Op::Pool(p) => pool(p),
        Op::Softmax(s) => vec![("axis", Attribute::Int(s.axis as i64))],
        Op::Pointwise(_, params) => pointwise(params),
        Op::Cast(to) => vec![("to", Attribute::Word(to.name().to_owned()))],
        Op::Reduce(r) => {
            let mut list = vec![axes(r.axes)];
            list.extend(r.keepdim.then_some(("keepdim", Attribute::Flag)));
            list
        }
        Op::View(view) => of_view(view),
    }
}

fn pool(p: &PoolAttrs) -> Attributes {
    let default = PoolAttrs::new(p.mode, p.window);
    let dims = [
        ("stride", p.stride, default.stride),
        ("pre_padding", p.pre_padding, default.pre_padding),
        ("post_padding", p.post_padding, default.post_padding),
    ];
    let mut list = vec![("window", Attribute::Dims(p.window))];
    list.extend(dims.into_iter().filter(|d| d.1 != d.2).map(|(name, value, _)| (name, Attribute::Dims(value))));
    list.extend((p.mode == PoolMode::AvgExcludePadding).then_some(("exclude_padding", Attribute::Flag)));
    list.extend((p.part == PoolPart::Index).then(|| ("part", Attribute::Word("index".to_owned()))));
    list
}

fn sdpa(a: &SdpaAttrs) -> Attributes {
    let mut list: Attributes = a.operands().map(|o| (o.name(), Attribute::Flag)).collect();
    list.extend(a.left.map(|n| ("left", Attribute::Int(n))));
    list.extend(a.right.map(|n| ("right", Attribute::Int(n))));
    list.extend(a.bottom_right.then_some(("bottom_right", Attribute::Flag)));
    list.extend((a.part != SdpaPart::Output).then(|| ("part", Attribute::Word(a.part.name().to_owned()))));
    list
}

/// Axes of which bits are set.
fn axes(bits: u8) -> (&'static str, Attribute) {
    let set = (0..MAX_RANK).filter(|a| bits & (1 << a) != 0).map(|a| a as i64);
    ("axes", Attribute::Dims(Dims::collect(set)))
}

fn conv(a: &ConvAttrs) -> Attributes {
    let default = ConvAttrs::new(a.spatial);
    let dims = [
        ("stride", a.stride, default.stride),
        ("dilation", a.dilation, default.dilation),
        ("pre_padding", a.pre_padding, default.pre_padding),
        ("post_padding", a.post_padding, default.post_padding),
    ];
    let differ = dims.into_iter().filter(|(_, value, default)| value != default);
    let mut list: Attributes = differ.map(|(name, value, _)| (name, Attribute::Dims(value))).collect();
    list.extend((a.groups != 1).then_some(("groups", Attribute::Int(a.groups))));
    list
}

fn pointwise(p: &Params) -> Attributes {
    let d = Params::DEFAULT;
    let floats = [
        ("lower_clip", p.lower_clip, d.lower_clip),
        ("upper_clip", p.upper_clip, d.upper_clip),
        ("slope", p.slope, d.slope),
        ("elu_alpha", p.elu_alpha, d.elu_alpha),
        ("softplus_beta", p.softplus_beta, d.softplus_beta),
        ("swish_beta", p.swish_beta, d.swish_beta),
    ];
    let differ = floats.into_iter().filter(|(_, value, default)| value.to_bits() != default.to_bits());
    let mut list: Attributes = differ.map(|(name, value, _)| (name, Attribute::Float(value))).collect();
    list.extend((p.axis != d.axis).then_some(("axis", Attribute::Int(p.axis))));
    list
}

fn of_view(view: &ViewOp) -> Attributes {
    match *view {
        ViewOp::Permute(perm) => vec![("perm", Attribute::Dims(perm))],
        ViewOp::Reshape(dims) | ViewOp::Expand(dims) => vec![("dims", Attribute::Dims(dims))],
        ViewOp::Slice { axis, start, end, step } => vec![
            ("axis", Attribute::Int(axis as i64)),
            ("start", Attribute::Int(start)),
            ("end", Attribute::Int(end)),
            ("step", Attribute::Int(step)),
        ],
        ViewOp::Squeeze(axis) | ViewOp::Unsqueeze(axis) => vec![("axis", Attribute::Int(axis as i64))],
    }
}

/// The attributes that were written behind an operation, each to be taken once.
pub(super) struct Given(pub(super) Vec<(String, Attribute)>);

impl Given {
    fn take(&mut self, name: &str) -> Option<Attribute> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    fn dims(&mut self, name: &str, default: Dims) -> Result<Dims> {
        match self.take(name) {
            None => Ok(default),
            Some(Attribute::Dims(dims)) => Ok(dims),
            Some(_) => Err(Error::argument(format!("`{name}` takes a list such as [1, 1]"))),
        }
    }

    fn int(&mut self, name: &str) -> Result<Option<i64>> {
        match self.take(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(value)),
            Some(_) => Err(Error::argument(format!("`{name}` takes a whole number"))),
        }
    }

    fn axis(&mut self) -> Result<usize> {
        let axis = self.int("axis")?.ok_or_else(|| Error::argument("the attribute `axis` is missing"))?;
        let fits = usize::try_from(axis).ok().filter(|&a| a <= MAX_RANK);
        fits.ok_or_else(|| Error::argument(format!("axis {axis} is not one of at most {MAX_RANK}")))
    }

    fn float(&mut self, name: &str, default: f64) -> Result<f64> {
        match self.take(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(value),
            Some(Attribute::Int(value)) => Ok(value as f64),
            Some(_) => Err(Error::argument(format!("`{name}` takes a number"))),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Attribute::Flag) => Ok(true),
            Some(_) => Err(Error::argument(format!("`{name}` takes no value"))),
        }
    }

    fn needed(&mut self, name: &str) -> Result<Dims> {
        match self.take(name) {
            Some(Attribute::Dims(dims)) => Ok(dims),
            _ => Err(Error::argument(format!("`{name}` is missing, a list such as [1, 0]"))),
        }
    }

    fn axes(&mut self) -> Result<u8> {
        let mut axes = 0u8;
        for &axis in self.needed("axes")?.iter() {
            let bit = u32::try_from(axis).ok().and_then(|a| 1u8.checked_shl(a));
            axes |= bit.ok_or_else(|| Error::argument(format!("axis {axis} is not one of at most {MAX_RANK}")))?;
        }
        Ok(axes)
    }

    /// Which of several results.
    fn part<P>(&mut self, default: P, from_name: impl Fn(&str) -> Option<P>) -> Result<P> {
        match self.take("part") {
            None => Ok(default),
            Some(Attribute::Word(name)) => {
                from_name(&name).ok_or_else(|| Error::argument(format!("there is no result `{name}` here")))
            }
            Some(_) => Err(Error::argument("`part` takes the name of a result")),
        }
    }

    fn none_left(&self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::argument(format!("there is no attribute `{name}` here, or it is given twice")))
            }
        }
    }
}

/// The operation of a name with attributes.
pub(super) fn op(name: &str, mut given: Given) -> Result<Op> {
    let op = if let Some(spatial) = ["conv1d", "conv2d", "conv3d"].iter().position(|n| *n == name) {
        Op::Conv(read_conv(spatial + 1, &mut given)?)
    } else if name == "matmul" {
        Op::Matmul
    } else if let Some(mode) = NormMode::from_name(name) {
        Op::Norm(read_norm(mode, &mut given)?)
    } else if let Some((spatial, mode)) = pool_name(name) {
        Op::Pool(read_pool(spatial, mode, &mut given)?)
    } else if name == "sdpa" {
        Op::Sdpa(read_sdpa(&mut given)?)
    } else if ["softmax", "log_softmax"].contains(&name) {
        Op::Softmax(SoftmaxAttrs { axis: given.axis()?, log: name == "log_softmax" })
    } else if name == "cast" {
        Op::Cast(read_type(&mut given)?)
    } else if let Some(mode) = ReduceMode::from_name(name) {
        Op::Reduce(read_reduce(mode, &mut given)?)
    } else if let Some(mode) = PointwiseMode::from_name(name) {
        Op::Pointwise(mode, read_params(&mut given)?)
    } else {
        Op::View(read_view(name, &mut given)?)
    };
    given.none_left()?;
    Ok(op)
}

fn read_conv(spatial: usize, given: &mut Given) -> Result<ConvAttrs> {
    let default = ConvAttrs::new(spatial);
    let attrs = ConvAttrs {
        spatial,
        stride: given.dims("stride", default.stride)?,
        dilation: given.dims("dilation", default.dilation)?,
        pre_padding: given.dims("pre_padding", default.pre_padding)?,
        post_padding: given.dims("post_padding", default.post_padding)?,
        groups: given.int("groups")?.unwrap_or(1),
    };
    let lists = [attrs.stride, attrs.dilation, attrs.pre_padding, attrs.post_padding];
    if lists.iter().any(|list| list.len() != spatial) {
        return Err(Error::argument(format!("the lists of a conv{spatial}d have {spatial} entries")));
    }
    Ok(attrs)
}

fn read_norm(mode: NormMode, given: &mut Given) -> Result<NormAttrs> {
    let part = given.part(NormPart::Y, NormPart::from_name)?;
    Ok(NormAttrs { mode, axes: given.axes()?, bias: given.flag("bias")?, part })
}

/// Spatial dimensions and mode of a pooling.
fn pool_name(name: &str) -> Option<(usize, PoolMode)> {
    let of = |names: [&str; 3], mode| names.iter().position(|n| *n == name).map(|at| (at + 1, mode));
    of(["max_pool1d", "max_pool2d", "max_pool3d"], PoolMode::Max)
        .or_else(|| of(["avg_pool1d", "avg_pool2d", "avg_pool3d"], PoolMode::Avg))
}

fn read_pool(spatial: usize, mode: PoolMode, given: &mut Given) -> Result<PoolAttrs> {
    let window = given.needed("window")?;
    let exclude = given.flag("exclude_padding")?;
    let default = PoolAttrs::new(if exclude { PoolMode::AvgExcludePadding } else { mode }, window);
    if window.len() != spatial || (exclude && mode == PoolMode::Max) {
        return Err(Error::argument(format!("the window has {spatial} entries, and only a mean excludes padding")));
    }
    Ok(PoolAttrs {
        stride: given.dims("stride", default.stride)?,
        pre_padding: given.dims("pre_padding", default.pre_padding)?,
        post_padding: given.dims("post_padding", default.post_padding)?,
        part: given.part(PoolPart::Y, |name| (name == "index").then_some(PoolPart::Index))?,
        ..default
    })
}

fn read_sdpa(given: &mut Given) -> Result<SdpaAttrs> {
    let mut attrs = SdpaAttrs {
        part: given.part(SdpaPart::Output, SdpaPart::from_name)?,
        left: given.int("left")?,
        right: given.int("right")?,
        bottom_right: given.flag("bottom_right")?,
        ..SdpaAttrs::new()
    };
    for operand in SdpaOperand::ALL {
        if given.flag(operand.name())? {
            attrs = attrs.with(operand);
        }
    }
    Ok(attrs)
}

fn read_type(given: &mut Given) -> Result<DType> {
    let Some(Attribute::Word(name)) = given.take("to") else {
        return Err(Error::argument("`to` is missing, an element type such as bf16"));
    };
    DType::from_name(&name).ok_or_else(|| Error::argument(format!("`{name}` is no element type")))
}

fn read_reduce(mode: ReduceMode, given: &mut Given) -> Result<ReduceAttrs> {
    Ok(ReduceAttrs { mode, axes: given.axes()?, keepdim: given.flag("keepdim")? })
}

fn read_params(given: &mut Given) -> Result<Params> {
    let d = Params::DEFAULT;
    Ok(Params {
        lower_clip: given.float("lower_clip", d.lower_clip)?,
        upper_clip: given.float("upper_clip", d.upper_clip)?,
        slope: given.float("slope", d.slope)?,
        elu_alpha: given.float("elu_alpha", d.elu_alpha)?,
        softplus_beta: given.float("softplus_beta", d.softplus_beta)?,
        swish_beta: given.float("swish_beta", d.swish_beta)?,
        axis: given.int("axis")?.unwrap_or(d.axis),
    })
}

fn read_view(name: &str, given: &mut Given) -> Result<ViewOp> {
    let needed = |value: Option<i64>, name: &str| value.ok_or_else(|| Error::argument(format!("`{name}` is missing")));
    Ok(match name {
        "permute" => ViewOp::Permute(given.needed("perm")?),
        "reshape" => ViewOp::Reshape(given.needed("dims")?),
        "expand" => ViewOp::Expand(given.needed("dims")?),
        "squeeze" => ViewOp::Squeeze(given.axis()?),
        "unsqueeze" => ViewOp::Unsqueeze(given.axis()?),
        "slice" => ViewOp::Slice {
            axis: given.axis()?,
            start: needed(given.int("start")?, "start")?,
            end: needed(given.int("end")?, "end")?,
            step: needed(given.int("step")?, "step")?,
        },
        _ => return Err(Error::argument(format!("there is no operation `{name}`"))),
    })
}
