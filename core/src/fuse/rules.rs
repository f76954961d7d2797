//! The table of fusion rules. [`RULES`] is data: the partitioner, the tests and `docs/fusion.md` all read it.
//!
//! A rule says what may *not* go into a kernel, so that whatever no rule forbids is fused and the backend has the last word. The rules for GPUs are
//! cuDNN's published support surface of its runtime-fusion engines, corrected by what plans of cuDNN 9.19 and 9.28 for sm_80, 89, 90 and 100
//! were measured to build.

use crate::dtype::DType;
use crate::ir::{PointwiseMode, ReduceMode};

/// Where a plan is to run, as far as fusion depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDevice {
    /// The CPU backend.
    Cpu,
    /// A GPU through cuDNN.
    Gpu {
        /// Compute capability × 10: 90 for an H200.
        sm: u32,
        /// As `cudnnGetVersion` says it: 91900 for 9.19.0.
        cudnn: u32,
    },
}

/// A device and what is known of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleTarget<'a> {
    /// The device.
    pub device: RuleDevice,
    /// For each tensor of the call, the largest power of two up to 256 that divides its address; 16 is assumed of those that are not listed.
    pub alignments: &'a [u32],
}

impl<'a> RuleTarget<'a> {
    /// The CPU backend.
    pub const CPU: RuleTarget<'static> = RuleTarget { device: RuleDevice::Cpu, alignments: &[] };

    /// A GPU (`sm` = 90 for an H200) with a version of cuDNN (91900 for 9.19.0).
    pub const fn gpu(sm: u32, cudnn: u32) -> RuleTarget<'static> {
        RuleTarget { device: RuleDevice::Gpu { sm, cudnn }, alignments: &[] }
    }

    /// The same for tensors at addresses of these alignments.
    pub const fn aligned(self, alignments: &'a [u32]) -> RuleTarget<'a> {
        RuleTarget { device: self.device, alignments }
    }
}

/// A half-open range of architectures and of cuDNN versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From this compute capability (× 10) …
    pub sm_from: u32,
    /// … to below this one.
    pub sm_below: u32,
    /// In cuDNN versions from this one …
    pub cudnn_from: u32,
    /// … to below this one.
    pub cudnn_below: u32,
}

impl Span {
    const fn new(sm_from: u32, sm_below: u32, cudnn_below: u32) -> Span {
        Span { sm_from, sm_below, cudnn_from: 0, cudnn_below }
    }

    /// Every GPU with cuDNN in a range of versions.
    const fn versions(cudnn_from: u32, cudnn_below: u32) -> Span {
        Span { sm_from: 0, sm_below: ANY, cudnn_from, cudnn_below }
    }
}

/// The devices on which a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On all.
    Everywhere,
    /// On the CPU.
    Cpu,
    /// On every GPU.
    Gpu,
    /// On these GPUs.
    Gpus(&'static [Span]),
}

impl Where {
    /// Whether the rule holds on `device`.
    pub fn holds(&self, device: RuleDevice) -> bool {
        match (self, device) {
            (Where::Everywhere, _) | (Where::Cpu, RuleDevice::Cpu) | (Where::Gpu, RuleDevice::Gpu { .. }) => true,
            (Where::Gpus(spans), RuleDevice::Gpu { sm, cudnn }) => spans
                .iter()
                .any(|s| (s.sm_from..s.sm_below).contains(&sm) && (s.cudnn_from..s.cudnn_below).contains(&cudnn)),
            _ => false,
        }
    }
}

/// The kernels a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// All.
    Any,
    /// Those with a core operation.
    Core,
    /// Those round a convolution.
    Conv,
    /// Those round a matrix product.
    Matmul,
    /// Those round a normalisation.
    Norm,
    /// Those round a softmax.
    Softmax,
    /// Those round an attention.
    Attention,
    /// Those round a pooling.
    Pool,
}

/// The part of a kernel a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Every operation.
    Kernel,
    /// The core operation itself.
    Core,
    /// Pointwise operations behind the core.
    Epilogue,
    /// Reductions.
    Reduction,
    /// Pointwise operations in front of a core's operand.
    Prologue,
}

/// Which axes of the core's result an operand or a reduced result still has: a set of roles. The other axes have extent 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form(pub u8);

impl Form {
    /// One element.
    pub const SCALAR: Form = Form(0);
    /// Convolution: N; matrix product: the batch.
    pub const BATCH: Form = Form(1);
    /// Convolution: channels; matrix product: rows.
    pub const SECOND: Form = Form(2);
    /// Convolution: all spatial axes; matrix product: columns.
    pub const LAST: Form = Form(4);
    /// All axes.
    pub const FULL: Form = Form(7);

    /// The axes of both.
    pub const fn and(self, other: Form) -> Form {
        Form(self.0 | other.0)
    }
}

/// Convolutions that only cuDNN's precompiled engines take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvCase {
    /// The result does not lie in memory as N×spatial×C.
    NotChannelsLast,
    /// A group for each channel.
    Depthwise,
}

/// What a rule forbids, with its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A second core operation.
    OneCore,
    /// Reading a view of a result of the same kernel.
    ViewReadsMemory,
    /// A view that has to be copied, beside anything else.
    CopyAlone,
    /// A result of another shape than the core's, except one that stays inside and is repeated to it.
    SameDims,
    /// Any result of another shape than the core's.
    SameDimsAlways,
    /// An operand that is computed, in another kernel, from a result of this one.
    NoWayBack,
    /// Reading the result of a reduction of the same kernel.
    ReductionIsExit,
    /// A result that has nothing to do with the core's and leaves the kernel.
    SideStaysInside,
    /// Epilogue operands of other forms than these.
    Operands(&'static [Form]),
    /// Full-size epilogue operands that are not channels-last.
    OperandChannelsLast,
    /// Operands whose batch axes do not merge into one.
    MergedBatch,
    /// Anything but `+ bias`, then ReLU, behind such a convolution.
    BiasReluOnly(ConvCase),
    /// These pointwise modes.
    NotModes(&'static [PointwiseMode]),
    /// Arithmetic in these types.
    NotTypes(&'static [DType]),
    /// Anything behind the core; its own further results are part of it.
    NothingBehind,
    /// Other reductions than these.
    ReduceModes(&'static [ReduceMode]),
    /// Results of reductions of other forms than these.
    ReduceForms(&'static [Form]),
    /// Results of reductions of this form.
    NotReduceForm(Form),
    /// Reductions that give an integer.
    FloatReduction,
    /// Reductions behind a grouped convolution.
    NoReductionOfGroups,
    /// An attention of this kind.
    NotAttention(AttentionCase),
    /// Core operands of these element types.
    NotCoreTypes(&'static [DType]),
    /// Any prologue.
    NoPrologue,
    /// Other prologue operations than casts and these, with plain parameters.
    PrologueModes(&'static [PointwiseMode]),
    /// More prologue operations than this.
    PrologueLength(usize),
    /// A prologue in front of another operand than the first.
    PrologueOnData,
    /// A prologue in front of both operands.
    PrologueOnOne,
    /// A prologue of a grouped convolution.
    PrologueNotGrouped,
    /// Prologue operands of other forms than these.
    PrologueOperands(&'static [Form]),
    /// Prologue operands aligned to fewer bytes.
    PrologueAlignment(u32),
    /// A prologue result that anything but the core reads, or that is returned.
    PrologueStaysInside,
}

/// An attention that a rule refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionCase {
    /// Any.
    Any,
    /// Without its output: only statistics.
    StatisticsOnly,
    /// Widths of q, k or v that are no multiple of this.
    Width(i64),
    /// Slopes where queries see keys behind themselves.
    AlibiNotCausal,
    /// The last query at the last key, with a bias or slopes.
    BottomRightBias,
    /// The last query at the last key and a right window, with more queries than keys and no lengths.
    BottomRightMoreQueries,
    /// A left window, with more queries than keys and no lengths.
    LeftMoreQueries,
    /// A left window and no right one, with more keys than this.
    LeftOnlyKeys(i64),
    /// One query, with a sink.
    DecodeSink,
    /// One query of grouped heads, with lengths and a band that depends on them.
    DecodeBand,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Its name in texts; never reused for another rule.
    pub id: &'static str,
    /// Which part of a kernel it is about.
    pub part: Part,
    /// Round which cores.
    pub around: Around,
    /// On which devices.
    pub on: Where,
    /// What it forbids.
    pub limit: Limit,
    /// The same in words.
    pub sentence: &'static str,
}

impl Rule {
    /// As a cut's reason starts: id and sentence.
    pub fn text(&self) -> String {
        format!("{}: {}", self.id, self.sentence)
    }
}

const fn row(id: &'static str, part: Part, around: Around, on: Where, limit: Limit, sentence: &'static str) -> Rule {
    Rule { id, part, around, on, limit, sentence }
}

const ANY: u32 = u32::MAX;

/// The table, in the order in which the rules are asked.
#[rustfmt::skip]
pub const RULES: &[Rule] = {
    use DType::{F8E4M3, F8E5M2, F64, I64};
    use Part::{Core, Epilogue, Kernel, Prologue, Reduction};
    use PointwiseMode as P;
    use ReduceMode as R;
    const N: Form = Form::BATCH;
    const C: Form = Form::SECOND;
    const M: Form = Form::SECOND;
    const S: Form = Form::LAST;
    const ONE: Form = Form::SCALAR;
    const FULL: Form = Form::FULL;
    &[
        row("R01", Kernel, Around::Any, Where::Everywhere, Limit::OneCore, "a kernel holds at most one core operation: a convolution, matrix product, normalisation, softmax, attention or pooling"),
        row("R02", Kernel, Around::Any, Where::Everywhere, Limit::ViewReadsMemory,
            "a view looks at memory: what it looks at is written first, and what reads the view runs in a later kernel"),
        row("R03", Kernel, Around::Any, Where::Everywhere, Limit::CopyAlone,
            "a view that strides cannot express is a copy, which is a kernel of its own"),
        row("R04", Kernel, Around::Any, Where::Everywhere, Limit::ReductionIsExit,
            "a reduction is the exit of its kernel: nothing may read its result inside it"),
        row("R05", Kernel, Around::Any, Where::Everywhere, Limit::SameDims,
            "all operations of a kernel have one shape, that of the core's result; one with another shape starts a kernel (unless it is \
             smaller and only read inside)"),
        row("R06", Kernel, Around::Any, Where::Everywhere, Limit::NoWayBack,
            "a value that leaves a kernel does not come back into it through another one"),
        row("R07", Kernel, Around::Any, Where::Cpu, Limit::SameDimsAlways,
            "on the CPU what is smaller than the core's result is computed once, by a kernel of its own"),
        row("R50", Epilogue, Around::Norm, Where::Everywhere, Limit::NothingBehind,
            "nothing is fused behind a normalisation: cuDNN takes nothing behind layer and RMS norm, on any GPU"),
        row("R51", Prologue, Around::Norm, Where::Everywhere, Limit::NoPrologue,
            "nothing is fused in front of a normalisation: cuDNN takes nothing in front of layer and RMS norm, on any GPU"),
        row("R52", Epilogue, Around::Softmax, Where::Everywhere, Limit::NothingBehind, "a softmax is a kernel of its own"),
        row("R53", Prologue, Around::Softmax, Where::Everywhere, Limit::NoPrologue, "a softmax is a kernel of its own"),
        row("R54", Epilogue, Around::Attention, Where::Everywhere, Limit::NothingBehind, "an attention is a kernel of its own"),
        row("R55", Prologue, Around::Attention, Where::Everywhere, Limit::NoPrologue, "an attention is a kernel of its own"),
        row("R56", Epilogue, Around::Pool, Where::Everywhere, Limit::NothingBehind, "a pooling is a kernel of its own"),
        row("R57", Prologue, Around::Pool, Where::Everywhere, Limit::NoPrologue, "a pooling is a kernel of its own"),
        row("R10", Epilogue, Around::Core, Where::Gpu, Limit::SideStaysInside,
            "what does not depend on the core's result is computed in its kernel only if nothing else reads it"),
        row("R11", Epilogue, Around::Core, Where::Gpu, Limit::NotModes(&[P::GenIndex]), "no engine of cuDNN makes indices behind a core"),
        row("R12", Epilogue, Around::Core, Where::Gpu, Limit::NotTypes(&[I64, F64]), "operations behind a core compute in F32 or I32"),
        row("R13", Epilogue, Around::Conv, Where::Gpu, Limit::BiasReluOnly(ConvCase::NotChannelsLast),
            "behind a convolution whose result is not channels-last only `+ bias` and then ReLU can follow; `.channels_last()` on the data lifts this"),
        row("R14", Epilogue, Around::Conv, Where::Gpus(&[Span::new(0, ANY, 92800)]), Limit::BiasReluOnly(ConvCase::Depthwise),
            "behind a depthwise convolution only `+ bias` and then ReLU can follow before cuDNN 9.28"),
        // cuDNN 9.19 builds kernels for other forms, which then read wrong elements or fault (seen on an H200).
        row("R15", Epilogue, Around::Conv, Where::Gpu, Limit::Operands(&[ONE, C, N.and(S), FULL]),
            "an operand behind a convolution is one element, a channel vector (1×K×1×1), N×1×P×Q or of the full shape"),
        row("R16", Epilogue, Around::Conv, Where::Gpu, Limit::OperandChannelsLast,
            "an operand of the full shape behind a convolution is channels-last like the result"),
        row("R17", Epilogue, Around::Matmul, Where::Gpu, Limit::MergedBatch,
            "the batch axes of an operand behind a matrix product must merge into one: all repeated, or all present with even strides"),
        row("R20", Reduction, Around::Core, Where::Gpu, Limit::ReduceModes(&[R::Sum, R::Max, R::Min, R::Amax, R::Norm1]),
            "behind a core cuDNN reduces by sum, max, min, amax or norm1; mean, product and norm2 are kernels of their own"),
        row("R21", Reduction, Around::Core, Where::Gpu, Limit::FloatReduction, "a reduction behind a core gives F32"),
        row("R22", Reduction, Around::Conv, Where::Gpu, Limit::NoReductionOfGroups,
            "nothing is reduced behind a grouped convolution"),
        row("R23", Reduction, Around::Conv, Where::Gpu, Limit::ReduceForms(&[ONE, C, N.and(S), N.and(C), N]),
            "a convolution's result is reduced to one element, to 1×K×1×1, N×1×P×Q, N×K×1×1 or N×1×1×1"),
        row("R24", Reduction, Around::Conv, Where::Gpus(&[Span::new(0, 90, ANY), Span::new(90, 100, 92800)]), Limit::NotReduceForm(N.and(C)),
            "a convolution's result is reduced to N×K×1×1 (global pooling) only on sm_100, and on sm_90 from cuDNN 9.28"),
        row("R25", Reduction, Around::Matmul, Where::Gpu, Limit::ReduceForms(&[ONE, N.and(M), N.and(S), S, M.and(S), N]),
            "a matrix product is reduced to one element or to B×M×1, B×1×N, 1×1×N, 1×M×N or B×1×1"),
        row("R30", Prologue, Around::Core, Where::Cpu, Limit::NoPrologue,
            "on the CPU a core reads its operands from memory: what is computed in front of it would be computed again for every tile"),
        row("R31", Prologue, Around::Core, Where::Gpu, Limit::PrologueStaysInside,
            "what is computed in front of a core stays inside the kernel: nothing else reads it and it is not returned"),
        row("R32", Prologue, Around::Core, Where::Gpu, Limit::PrologueModes(&[P::Add, P::Mul, P::Relu]),
            "in front of a core only scale, bias, plain ReLU and casts are fused"),
        row("R33", Prologue, Around::Core, Where::Gpu, Limit::PrologueLength(4), "at most four operations are fused in front of a core"),
        row("R34", Prologue, Around::Conv, Where::Gpu, Limit::PrologueOnData,
            "in front of a convolution only the data is computed, not the weights"),
        row("R35", Prologue, Around::Core, Where::Gpu, Limit::PrologueOnOne, "only one operand of a core is computed in its kernel"),
        row("R36", Prologue, Around::Conv, Where::Gpu, Limit::PrologueNotGrouped, "nothing is fused in front of a grouped convolution"),
        row("R37", Prologue, Around::Conv, Where::Gpu, Limit::PrologueOperands(&[ONE, C, FULL]),
            "an operand in front of a convolution is one element, a channel vector (1×C×1×1) or of the full shape"),
        row("R38", Prologue, Around::Core, Where::Gpus(&[Span::new(90, ANY, ANY)]), Limit::PrologueAlignment(16),
            "from sm_90 on, tensors that are read in front of a core are aligned to 16 bytes, rows included"),
        row("R39", Prologue, Around::Core, Where::Gpus(&[Span::new(0, 90, ANY)]), Limit::PrologueAlignment(4),
            "tensors that are read in front of a core are aligned to 4 bytes, rows included"),
        row("R40", Core, Around::Core, Where::Gpus(&[Span::new(0, 89, ANY)]), Limit::NotCoreTypes(&[F8E4M3, F8E5M2]),
            "tensor cores for 8-bit floats exist from sm_89 on"),
        row("R60", Core, Around::Attention, Where::Gpu, Limit::NotCoreTypes(&[DType::F32, F64, F8E4M3, F8E5M2]),
            "on a GPU attention reads F16 or BF16; `cast` q, k and v"),
        row("R61", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::Width(8)),
            "cuDNN's attention reads heads whose width is a multiple of 8"),
        row("R62", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::StatisticsOnly),
            "cuDNN gives the statistics of an attention only beside its output: return that too"),
        row("R63", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::AlibiNotCausal),
            "cuDNN takes slopes (`alibi_slopes`) only where no query sees behind itself: `causal = true`"),
        row("R64", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::BottomRightBias),
            "cuDNN takes no bias and no slopes with `bottom_right`"),
        row("R65", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::BottomRightMoreQueries),
            "with `bottom_right` and a right window cuDNN takes no more queries than keys, unless their lengths are given"),
        row("R66", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::LeftMoreQueries),
            "with a left window cuDNN takes no more queries than keys, unless their lengths are given"),
        row("R67", Core, Around::Attention, Where::Gpus(&[Span::versions(91400, 91401)]), Limit::NotAttention(AttentionCase::LeftOnlyKeys(1024)),
            "cuDNN 9.14.0 is wrong about a left window that is not causal over more than 1024 keys; 9.14.1 is not"),
        row("R68", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::DecodeSink),
            "cuDNN takes no `sink` where there is one query"),
        row("R70", Core, Around::Attention, Where::Gpu, Limit::NotAttention(AttentionCase::DecodeBand),
            "cuDNN is wrong about a band where there is one query of grouped heads (release notes of 9.18.1); without lengths, or causal with \
             `bottom_right`, none is needed"),
        row("R69", Core, Around::Attention, Where::Gpus(&[Span::versions(0, 90600), Span::versions(91000, 91002)]),
            Limit::NotAttention(AttentionCase::Any), "attention needs cuDNN 9.6 or later, and not 9.10.0 or 9.10.1"),
        row("R41", Core, Around::Core, Where::Gpu, Limit::NotCoreTypes(&[F64]), "F64 runs on the CPU only; `cast` to F32"),
    ]
};

/// The rule with this limit; every limit that stands for a decision of the partitioner itself is in the table.
pub(super) fn rule(limit: Limit) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.limit == limit)
}
