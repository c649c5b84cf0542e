use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Jobs that wait for a worker, first come, first served.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Notify,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { waiting: VecDeque::new(), closed: false }), arrived: Notify::new() }
    }
}

impl<T> Queue<T> {
    /// Dropped where the queue is closed.
    pub(crate) fn push(&self, job: T) {
        let mut state = self.lock();
        if !state.closed {
            state.waiting.push_back(job);
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// What waits is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
    }

    /// All that waits.
    pub(crate) fn drain(&self) -> VecDeque<T> {
        std::mem::take(&mut self.lock().waiting)
    }

    pub(super) fn try_pop(&self) -> Option<T> {
        self.lock().waiting.pop_front()
    }

    /// Up to `most` that are like this, in their order.
    pub(super) fn take(&self, most: usize, like: impl Fn(&T) -> bool) -> Vec<T> {
        let mut state = self.lock();
        let (mut taken, mut left) = (Vec::new(), VecDeque::with_capacity(state.waiting.len()));
        for job in state.waiting.drain(..) {
            if taken.len() < most && like(&job) { taken.push(job) } else { left.push_back(job) }
        }
        state.waiting = left;
        taken
    }

    /// The next job, as soon as there is one; `None` once the queue is closed and empty. Cancel safe.
    pub(super) async fn pop(&self) -> Option<T> {
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // From here on an arrival is not missed.
            arrived.as_mut().enable();
            {
                let mut state = self.lock();
                match state.waiting.pop_front() {
                    Some(job) => return Some(job),
                    None if state.closed => return None,
                    None => {}
                }
            }
            arrived.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
