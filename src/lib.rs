//! `oomscope` answers, from files alone, what happened to a PyTorch job that died with "CUDA out of memory".

pub mod allocator;
pub mod analysis;
pub mod cli;
pub mod export;
pub mod history;
pub mod oom;
pub mod pickle;
pub mod render;
pub mod snapshot;
pub mod text;
pub mod units;
