//! `oomscope` answers, from files alone, what happened to a PyTorch job that died with "CUDA out of memory".

pub mod allocator;
pub mod analysis;
pub mod pickle;
pub mod render;
