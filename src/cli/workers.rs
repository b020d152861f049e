//! The same work for many files, several at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::progress::Files;

/// Does `work` on each of `items`, `jobs` at a time, by default as many as there are processors. The results are in the
/// order of the items.
///
/// A worker takes the next item when it is done with one, so that what `jobs` files need bounds the memory. (In a pool
/// that steals work, one that waits would begin another file.)
pub fn in_parallel<T: Sync, R: Send>(items: &[T], jobs: Option<usize>, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let progress = Files::new(items.len());
    thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    progress.done();
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let expected: Vec<u32> = items.iter().map(|item| item * 2).collect();
        assert_eq!(in_parallel(&items, None, |item| item * 2), expected);
        assert_eq!(in_parallel(&items, Some(7), |item| item * 2), expected);
        assert!(in_parallel(&[], None, |item: &u32| *item).is_empty());
    }
}
