//! The broker: a queue that delivers at least once, and not in order.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    events::Event,
    protocol::{Delivered, End},
};

pub(crate) struct Queue<'a> {
    events: &'a [Event],
    waiting: VecDeque<Waiting>,
    /// By tag.
    held: BTreeMap<u64, Waiting>,
    next_tag: u64,
    random: fastrand::Rng,
    pub(crate) counts: Counts,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    event: usize,
    attempt: u32,
    not_before: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) deliveries: u64,
    pub(crate) acked: u64,
    pub(crate) dead_letters: u64,
    /// Asked for again by the worker.
    pub(crate) given_back: u64,
    /// Held by a worker when it was killed.
    pub(crate) redelivered: u64,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(events: &'a [Event], seed: u64) -> Self {
        let waiting = (0..events.len()).map(|event| Waiting { event, attempt: 0, not_before: None }).collect();
        let counts = Counts { published: events.len() as u64, ..Counts::default() };
        Self { events, waiting, held: BTreeMap::new(), next_tag: 0, random: fastrand::Rng::with_seed(seed), counts }
    }

    pub(crate) fn take(&mut self, most: u16) -> Vec<Delivered> {
        let now = Instant::now();
        let mut found = Vec::new();
        while found.len() < usize::from(most)
            && let Some(at) = self.waiting.iter().position(|waiting| waiting.not_before.is_none_or(|due| due <= now))
            && let Some(mut waiting) = self.waiting.remove(at)
        {
            waiting.attempt += 1;
            self.next_tag += 1;
            self.counts.deliveries += 1;
            found.push(Delivered { tag: self.next_tag, attempt: waiting.attempt, event: self.events[waiting.event].clone() });
            self.held.insert(self.next_tag, waiting);
        }
        found
    }

    /// Whether the tag was still held.
    pub(crate) fn settle(&mut self, tag: u64, end: End) -> bool {
        let Some(delivery) = self.held.remove(&tag) else { return false };
        match end {
            End::Done => self.counts.acked += 1,
            End::DeadLettered => {
                self.counts.acked += 1;
                self.counts.dead_letters += 1;
            }
            End::Again { after_ms } => {
                self.counts.given_back += 1;
                self.waiting.push_back(Waiting { not_before: Some(Instant::now() + Duration::from_millis(after_ms)), ..delivery });
            }
        }
        true
    }

    /// What the dead worker held comes again, anywhere between what was never delivered yet.
    pub(crate) fn worker_died(&mut self) {
        for delivery in std::mem::take(&mut self.held).into_values() {
            self.counts.redelivered += 1;
            let at = self.random.usize(..=self.waiting.len());
            self.waiting.insert(at, delivery);
        }
    }

    /// The relay sends some events once more.
    pub(crate) fn publish_again(&mut self, count: u64) {
        for _ in 0..count {
            self.counts.published += 1;
            self.waiting.push_back(Waiting { event: self.random.usize(..self.events.len()), attempt: 0, not_before: None });
        }
    }

    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }
}
