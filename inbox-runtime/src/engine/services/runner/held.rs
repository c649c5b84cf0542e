use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::engine::contract::delivery::Delivery;

/// The deliveries that are ours and not settled. Of those with one key only the first is under way; the others wait behind it, in their order.
#[derive(Debug)]
pub(super) struct Held<H> {
    last: u64,
    deliveries: HashMap<u64, Delivery<H>>,
    lanes: HashMap<Bytes, VecDeque<u64>>,
}

impl<H> Held<H> {
    pub(super) fn new() -> Self {
        Self { last: 0, deliveries: HashMap::new(), lanes: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.deliveries.len()
    }

    pub(super) fn all(&self) -> Vec<&Delivery<H>> {
        self.deliveries.values().collect()
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Delivery<H>> {
        self.deliveries.get_mut(&number)
    }

    /// Its number, if it can start at once.
    pub(super) fn admit(&mut self, delivery: Delivery<H>) -> Option<u64> {
        self.last += 1;
        let number = self.last;
        let starts = delivery.origin().order_key.clone().is_none_or(|key| {
            let lane = self.lanes.entry(key).or_default();
            lane.push_back(number);
            lane.len() == 1
        });
        self.deliveries.insert(number, delivery);
        starts.then_some(number)
    }

    /// One that is done, and who may start after it.
    pub(super) fn finish(&mut self, number: u64) -> Option<(Delivery<H>, Option<u64>)> {
        let delivery = self.deliveries.remove(&number)?;
        let next = delivery.origin().order_key.as_ref().and_then(|key| {
            let lane = self.lanes.get_mut(key)?;
            lane.pop_front();
            let next = lane.front().copied();
            if next.is_none() {
                self.lanes.remove(key);
            }
            next
        });
        Some((delivery, next))
    }

    /// One that comes again, and all that wait behind it, which must not overtake it.
    pub(super) fn give_back(&mut self, number: u64) -> Option<(Delivery<H>, Vec<Delivery<H>>)> {
        let delivery = self.deliveries.remove(&number)?;
        let lane = delivery.origin().order_key.as_ref().and_then(|key| self.lanes.remove(key)).unwrap_or_default();
        let behind = lane.into_iter().filter_map(|waiting| self.deliveries.remove(&waiting)).collect();
        Some((delivery, behind))
    }

    /// All that wait behind others: they have not begun.
    pub(super) fn waiting(&mut self) -> Vec<Delivery<H>> {
        let waiting: Vec<u64> = self.lanes.values_mut().flat_map(|lane| lane.split_off(1)).collect();
        waiting.into_iter().filter_map(|number| self.deliveries.remove(&number)).collect()
    }
}
