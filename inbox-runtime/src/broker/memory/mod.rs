//! A broker within the process, for tests and examples: it redelivers what is not acked, in any order, any number of times.

mod faults;
mod queue;
mod subscription;

pub use faults::Faults;
pub use queue::{Memory, MemoryCounts};
pub use subscription::{MemoryHandle, MemorySubscription};
