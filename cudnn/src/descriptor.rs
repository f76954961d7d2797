//! Backend descriptors: made, filled by typed calls, finalized, destroyed when dropped.

use cudnn_sys as sys;
use cudnn_sys::{Api, AttributeName, AttributeType, DescriptorType};
use fused_graph_core::{Error, Result};

/// A Rust type that cuDNN knows as an attribute type.
///
/// # Safety
/// The type has the size, alignment and meaning that cuDNN gives to elements of `TYPE`, and all bits 0 are a value of it.
pub(crate) unsafe trait Attribute: Copy {
    /// The code of the attribute type.
    const TYPE: AttributeType;
}

macro_rules! attributes {
    ($($t:ty => $code:ident;)*) => {$(
        // SAFETY: the header gives elements of this attribute type this C type.
        unsafe impl Attribute for $t { const TYPE: AttributeType = AttributeType::$code; }
    )*};
}

attributes! {
    i64 => INT64;
    i32 => INT32;
    f32 => FLOAT;
    f64 => DOUBLE;
    bool => BOOLEAN;
    u8 => CHAR;
    sys::DataType => DATA_TYPE;
    sys::PointwiseMode => POINTWISE_MODE;
    sys::ReductionOp => REDUCTION_OPERATOR_TYPE;
    sys::ConvolutionMode => CONVOLUTION_MODE;
    sys::NanPropagation => NAN_PROPOGATION;
    sys::NormMode => NORM_MODE;
    sys::ResampleMode => RESAMPLE_MODE;
    sys::PaddingMode => PADDING_MODE;
    sys::NormFwdPhase => NORM_FWD_PHASE;
    sys::HeurMode => HEUR_MODE;
    sys::NumericalNote => NUMERICAL_NOTE;
    sys::BehaviorNote => BEHAVIOR_NOTE;
    sys::KnobType => KNOB_TYPE;
}

/// A handle as an attribute.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HandleAttribute(pub(crate) sys::Handle);

// SAFETY: a `cudnnHandle_t`, transparent.
unsafe impl Attribute for HandleAttribute {
    const TYPE: AttributeType = AttributeType::HANDLE;
}

/// An owned descriptor.
pub(crate) struct Descriptor {
    api: &'static Api,
    raw: sys::Descriptor,
}

// SAFETY: a descriptor is memory that cuDNN binds to no thread. It is changed only through `&mut self` before it is finalized, and read-only after,
// which cuDNN allows from several threads at once.
unsafe impl Send for Descriptor {}
// SAFETY: as above: shared access only reads.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// An empty descriptor.
    pub(crate) fn new(api: &'static Api, kind: DescriptorType) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the result points to a descriptor.
        let status = unsafe { (api.backend_create_descriptor)(kind, &mut raw) };
        if !status.is_success() {
            return Err(failure(api, status, &format!("creating {kind}")));
        }
        Ok(Descriptor { api, raw })
    }

    /// A descriptor filled by `fill` and finalized.
    pub(crate) fn build(
        api: &'static Api,
        kind: DescriptorType,
        fill: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let mut d = Self::new(api, kind)?;
        fill(&mut d)?;
        d.finalize(kind)?;
        Ok(d)
    }

    /// Copies values into an attribute.
    pub(crate) fn set<A: Attribute>(&mut self, name: AttributeName, values: &[A]) -> Result<()> {
        self.set_raw(name, A::TYPE, values.len(), values.as_ptr().cast())
    }

    /// Makes other descriptors an attribute.
    pub(crate) fn set_descriptors(&mut self, name: AttributeName, parts: &[&Descriptor]) -> Result<()> {
        let raw: Vec<sys::Descriptor> = parts.iter().map(|d| d.raw).collect();
        self.set_raw(name, AttributeType::BACKEND_DESCRIPTOR, raw.len(), raw.as_ptr().cast())
    }

    /// Copies pointers into an attribute.
    pub(crate) fn set_pointers(&mut self, name: AttributeName, pointers: &[*mut std::ffi::c_void]) -> Result<()> {
        self.set_raw(name, AttributeType::VOID_PTR, pointers.len(), pointers.as_ptr().cast())
    }

    fn set_raw(
        &mut self,
        name: AttributeName,
        kind: AttributeType,
        count: usize,
        values: *const std::ffi::c_void,
    ) -> Result<()> {
        fingerprint::note(name, kind, count, values);
        // SAFETY: `values` points to `count` elements of the type that `kind` stands for; cuDNN copies them.
        let status = unsafe { (self.api.backend_set_attribute)(self.raw, name, kind, count as i64, values) };
        if status.is_success() { Ok(()) } else { Err(failure(self.api, status, &format!("setting {name}"))) }
    }

    /// Ends the filling; on a plan this compiles.
    pub(crate) fn finalize(&mut self, kind: DescriptorType) -> Result<()> {
        // SAFETY: the descriptor is alive and not finalized.
        let status = unsafe { (self.api.backend_finalize)(self.raw) };
        if status.is_success() { Ok(()) } else { Err(failure(self.api, status, &format!("finalizing {kind}"))) }
    }

    /// The values of an attribute, at most `most` of them.
    pub(crate) fn get<A: Attribute>(&self, name: AttributeName, most: usize) -> Result<Vec<A>> {
        // SAFETY: an attribute type says that all bits 0 are a value of it.
        let mut values = vec![unsafe { std::mem::zeroed::<A>() }; most];
        let mut count = 0i64;
        // SAFETY: there is room for `most` elements of the attribute's type.
        let status = unsafe {
            let to = values.as_mut_ptr().cast();
            (self.api.backend_get_attribute)(self.raw, name, A::TYPE, most as i64, &mut count, to)
        };
        if !status.is_success() {
            return Err(failure(self.api, status, &format!("reading {name}")));
        }
        values.truncate(count.max(0) as usize);
        Ok(values)
    }

    /// The number of elements of an attribute.
    pub(crate) fn count(&self, name: AttributeName, kind: AttributeType) -> Result<usize> {
        let mut count = 0i64;
        let none = std::ptr::null_mut();
        // SAFETY: no elements are asked for.
        let status = unsafe { (self.api.backend_get_attribute)(self.raw, name, kind, 0, &mut count, none) };
        if !status.is_success() {
            return Err(failure(self.api, status, &format!("counting {name}")));
        }
        Ok(count.max(0) as usize)
    }

    /// Descriptors that are an attribute: copies into new ones of the given kind.
    pub(crate) fn get_descriptors(&self, name: AttributeName, kind: DescriptorType) -> Result<Vec<Descriptor>> {
        let count = self.count(name, AttributeType::BACKEND_DESCRIPTOR)?;
        self.get_descriptors_up_to(name, kind, count)
    }

    /// The same where cuDNN does not say how many there are: at most `count`.
    pub(crate) fn get_descriptors_up_to(
        &self,
        name: AttributeName,
        kind: DescriptorType,
        count: usize,
    ) -> Result<Vec<Descriptor>> {
        let mut parts = (0..count).map(|_| Descriptor::new(self.api, kind)).collect::<Result<Vec<_>>>()?;
        let mut raw: Vec<sys::Descriptor> = parts.iter().map(|d| d.raw).collect();
        let mut got = 0i64;
        // SAFETY: `raw` holds `count` descriptors of the right kind for cuDNN to write into; they stay owned by `parts`.
        let status = unsafe {
            let (kind, to) = (AttributeType::BACKEND_DESCRIPTOR, raw.as_mut_ptr().cast());
            (self.api.backend_get_attribute)(self.raw, name, kind, count as i64, &mut got, to)
        };
        if !status.is_success() {
            return Err(failure(self.api, status, &format!("reading {name}")));
        }
        parts.truncate(got.max(0) as usize);
        Ok(parts)
    }

    /// Asks an attribute about another descriptor, which is only read: the number that comes back.
    pub(crate) fn query(&self, name: AttributeName, about: &Descriptor) -> Result<i64> {
        let mut count = 0i64;
        let mut raw = about.raw;
        // SAFETY: one finalized descriptor is handed over, and there is room for one.
        let status = unsafe {
            let (kind, to) = (AttributeType::BACKEND_DESCRIPTOR, (&raw mut raw).cast());
            (self.api.backend_get_attribute)(self.raw, name, kind, 1, &mut count, to)
        };
        if status.is_success() { Ok(count) } else { Err(failure(self.api, status, &format!("reading {name}"))) }
    }

    /// For calls that take descriptors themselves.
    pub(crate) fn raw(&self) -> sys::Descriptor {
        self.raw
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by `new`, owned, and not used after this.
        unsafe { (self.api.backend_destroy_descriptor)(self.raw) };
    }
}

impl std::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Descriptor")
    }
}

pub(crate) mod fingerprint {
    //! What was written into descriptors, as a number: a plan from bytes is used only if the operations that it was made of were written alike.

    use cudnn_sys::{AttributeName, AttributeType};
    use std::cell::Cell;
    use std::ffi::c_void;

    thread_local! {
        static HASH: Cell<Option<Fingerprint>> = const { Cell::new(None) };
    }

    /// Of some operations.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Fingerprint {
        /// Of all that was written.
        pub(crate) whole: u64,
        /// The same but for the sizes: of graphs that can share kernels.
        pub(crate) topology: u64,
    }

    const START: u64 = 0xcbf2_9ce4_8422_2325;

    /// Runs `f`, and gives the fingerprint of all that it wrote.
    pub(crate) fn of<R>(f: impl FnOnce() -> R) -> (R, Fingerprint) {
        let outer = HASH.replace(Some(Fingerprint { whole: START, topology: START }));
        let result = f();
        (result, HASH.replace(outer).unwrap_or_default())
    }

    /// FNV-1a, the same in every process.
    fn mix(hash: u64, bytes: &[u8]) -> u64 {
        bytes.iter().fold(hash, |hash, &byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    pub(super) fn note(name: AttributeName, kind: AttributeType, count: usize, values: *const c_void) {
        let Some(hash) = HASH.get() else { return };
        let size = match kind {
            AttributeType::BOOLEAN | AttributeType::CHAR => 1,
            AttributeType::INT64 | AttributeType::DOUBLE => 8,
            // Their addresses differ from run to run; that they are set is noted.
            AttributeType::HANDLE | AttributeType::VOID_PTR | AttributeType::BACKEND_DESCRIPTOR => 0,
            _ => 4,
        };
        // SAFETY: the caller gives `count` elements of this attribute type, which have this size.
        let bytes = unsafe { std::slice::from_raw_parts(values.cast::<u8>(), count * size) };
        let with =
            |hash: u64, bytes: &[u8]| mix(mix(mix(hash, &name.0.to_le_bytes()), &(count as u64).to_le_bytes()), bytes);
        let sizes = matches!(name, AttributeName::TENSOR_DIMENSIONS | AttributeName::TENSOR_STRIDES);
        let topology = with(hash.topology, if sizes { &[] } else { bytes });
        HASH.set(Some(Fingerprint { whole: with(hash.whole, bytes), topology }));
    }
}

/// A status with cuDNN's last words, as an error.
pub(crate) fn failure(api: &Api, status: sys::Status, doing: &str) -> Error {
    let words = api.last_error();
    let words = words.trim();
    let text = if words.is_empty() { format!("{doing}: {status}") } else { format!("{doing}: {status}: {words}") };
    if status.is_not_supported() { Error::unsupported(text) } else { Error::cudnn(text) }
}
