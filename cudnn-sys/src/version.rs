//! Versions of cuDNN and of what it stands on.

use std::fmt;

/// A version of cuDNN, compared as one expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third.
    pub patch: u32,
}

impl Version {
    /// A version from its three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// From cuDNN 9's encoding: major × 10000 + minor × 100 + patch.
    pub const fn from_cudnn(encoded: usize) -> Self {
        Self::new((encoded / 10_000) as u32, (encoded / 100 % 100) as u32, (encoded % 100) as u32)
    }

    /// From the encoding of the CUDA driver and runtime: major × 1000 + minor × 10.
    pub const fn from_cuda(encoded: usize) -> Self {
        Self::new((encoded / 1000) as u32, (encoded / 10 % 100) as u32, 0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        assert_eq!(Version::from_cudnn(91900), Version::new(9, 19, 0));
        assert_eq!(Version::from_cudnn(92801).to_string(), "9.28.1");
        assert_eq!(Version::from_cuda(13020), Version::new(13, 2, 0));
        assert!(Version::new(9, 9, 9) < Version::new(9, 10, 0));
    }
}
