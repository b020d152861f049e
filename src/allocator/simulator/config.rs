//! What a simulator is made from.

use super::AddressPolicy;
use crate::allocator::{AllocatorRules, Behaviour};

/// What a simulator is made from.
#[derive(Clone, Debug)]
pub struct SimulatorConfig {
    /// The settings.
    pub rules: AllocatorRules,
    /// The release.
    pub behaviour: Behaviour,
    /// Total memory of the device in bytes.
    pub total: u64,
    /// Bytes of it that PyTorch can have: the total without the context, libraries and other processes.
    pub capacity: u64,
    /// Addresses of new segments.
    pub addresses: AddressPolicy,
    /// The limit of the memory fraction in bytes, where it is known although the fraction is not.
    pub allowed: Option<u64>,
}

impl SimulatorConfig {
    /// The newest release on a device of `total` bytes, all of them PyTorch's.
    pub fn new(rules: AllocatorRules, total: u64) -> Self {
        Self {
            rules,
            behaviour: Behaviour::default(),
            total,
            capacity: total,
            addresses: AddressPolicy::default(),
            allowed: None,
        }
    }
}
