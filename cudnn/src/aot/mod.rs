//! Plans for GPUs that are not there.

pub(crate) mod stub;
