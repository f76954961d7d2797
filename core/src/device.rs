//! Where tensors live.

use crate::backend::Accelerator;
use crate::dtype::DType;
use crate::error::Result;
use std::fmt;
use std::sync::Arc;

/// The CPU, or a GPU with a stream. Cheap to clone.
///
/// GPUs come from the `CudaDevice` trait of the facade's prelude: `Device::best()`, `Device::cuda(0)`.
#[derive(Clone)]
pub struct Device(Repr);

#[derive(Clone)]
enum Repr {
    Cpu,
    Accelerator(Arc<dyn Accelerator>),
}

impl Device {
    /// The CPU.
    pub const CPU: Device = Device(Repr::Cpu);

    /// The CPU.
    pub fn cpu() -> Device {
        Self::CPU
    }

    /// Wraps what a backend made.
    pub fn from_accelerator(accelerator: Arc<dyn Accelerator>) -> Device {
        Device(Repr::Accelerator(accelerator))
    }

    /// The accelerator, unless this is the CPU.
    pub fn accelerator(&self) -> Option<&Arc<dyn Accelerator>> {
        match &self.0 {
            Repr::Cpu => None,
            Repr::Accelerator(a) => Some(a),
        }
    }

    /// Whether this is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self.0, Repr::Cpu)
    }

    /// 0 for the CPU, else what tells two GPUs of this process apart.
    pub fn id(&self) -> u64 {
        self.accelerator().map_or(0, |a| a.id())
    }

    /// The 16-bit float that suits the device: BF16 on the CPU and from sm_80 on, else F16.
    pub fn preferred_half(&self) -> DType {
        self.accelerator().map_or(DType::BF16, |a| a.preferred_half())
    }

    /// Waits for everything queued on the device's stream.
    pub fn synchronize(&self) -> Result<()> {
        self.accelerator().map_or(Ok(()), |a| a.synchronize())
    }
}

/// The same GPU (whatever the stream), or both the CPU.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Cpu => f.write_str("CPU"),
            Repr::Accelerator(a) => f.write_str(&a.description()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
