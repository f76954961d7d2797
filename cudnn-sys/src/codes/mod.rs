//! cuDNN's enumerations, each as a newtype over its integer.
//!
//! A newer cuDNN answers with numbers that were unknown when this was written. A Rust enum may not hold such a number,
//! so none is used: an unknown code is kept, compared, passed on and printed as its number.
//!
//! The numbers are those of `cudnn_graph.h` of cuDNN 9.28; they never change within cuDNN 9. The names are the
//! header's without their common prefix and suffix, and keep its spelling.

mod attribute;
mod data;
mod descriptor;
mod engine;
mod operation;
mod pointwise;
mod status;

pub use attribute::AttributeName;
pub use data::{DataType, LayoutType, TensorReordering};
pub use descriptor::{AttributeType, DescriptorType};
pub use engine::{BehaviorNote, CudaGraphRetention, HeurMode, KnobType, NumericalNote, OperationGraphMode};
pub use operation::{
    BnFinalizeStatsMode, ConvolutionMode, GenStatsMode, MoeGroupedMatmulMode, NanPropagation, NormFwdPhase, NormMode,
    PaddingMode, ReductionOp, ResampleMode, ReshapeMode, RngDistribution, SignalMode,
};
pub use pointwise::PointwiseMode;
pub use status::{Severity, Status};

/// A newtype over a C enum, and the tables in which its codes find their names.
macro_rules! newtype {
    ($(#[$doc:meta])* $ty:ident: $c:ident, [$($names:expr),* $(,)?]) => {
        $(#[$doc])*
        #[doc = ""]
        #[doc = concat!("C: `", stringify!($c), "`.")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $ty(pub i32);

        impl $ty {
            const TABLES: &[&[(i32, &str)]] = &[$($names),*];

            /// The name in cuDNN's header, if this code is known here.
            pub fn name(self) -> Option<&'static str> {
                let mut entries = Self::TABLES.iter().flat_map(|names| names.iter());
                entries.find(|(code, _)| *code == self.0).map(|(_, name)| *name)
            }

            /// The code that has this name in cuDNN's header, if it is known here.
            pub fn from_name(name: &str) -> Option<Self> {
                let mut entries = Self::TABLES.iter().flat_map(|names| names.iter());
                entries.find(|(_, known)| *known == name).map(|(code, _)| Self(*code))
            }

            /// Every code known here.
            pub fn known() -> impl Iterator<Item = Self> {
                Self::TABLES.iter().flat_map(|names| names.iter()).map(|(code, _)| Self(*code))
            }
        }

        impl std::fmt::Debug for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($c), self.0),
                }
            }
        }

        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self, f)
            }
        }
    };
}

/// Codes of a newtype as associated constants, and the table `NAMES` of the enclosing module.
macro_rules! constants {
    ($ty:ident, $prefix:literal .. $suffix:literal { $($name:ident = $code:literal),* $(,)? }) => {
        pub(super) const NAMES: &[(i32, &str)] = &[$(($code, concat!($prefix, stringify!($name), $suffix))),*];

        impl $ty {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), $suffix, "`")]
                pub const $name: Self = Self($code);
            )*
        }
    };
}

/// A newtype whose codes stand in one table.
macro_rules! codes {
    (
        $(#[$doc:meta])* $ty:ident: $c:ident,
        $prefix:literal .. $suffix:literal { $($name:ident = $code:literal),* $(,)? }
    ) => {
        newtype! {
            $(#[$doc])*
            $ty: $c, [&[$(($code, concat!($prefix, stringify!($name), $suffix))),*]]
        }

        #[allow(non_upper_case_globals, reason = "cuDNN's spelling: INT8x4")]
        impl $ty {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), $suffix, "`")]
                pub const $name: Self = Self($code);
            )*
        }
    };
}

use {codes, constants, newtype};
