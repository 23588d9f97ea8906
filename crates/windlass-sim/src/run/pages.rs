//! Flows that load pages: each page has connections of its own, which take its objects as they become idle
//! (`windlass_scenario::Page`).

use super::Sim;
use crate::{fetch::notice, time::seconds};
use std::{collections::VecDeque, num::NonZeroU32};
use windlass_scenario::{DuePage, PageLoad};

/// A page that is being loaded.
#[derive(Debug)]
pub(super) struct Loading {
    /// The flow that loads it.
    index: u32,
    due_ns: u64,
    /// Objects that none of its connections has requested yet.
    left: VecDeque<u64>,
    /// Those that are on their way.
    waiting: u32,
    objects: u32,
    bytes: u64,
}

impl Sim<'_> {
    /// Begins to load a page: all of its connections at once, which request objects when they are connected.
    pub(super) fn load_page(&mut self, index: u32, due: DuePage) {
        let number = self.next_page;
        self.next_page = number.checked_add(1).expect("no run has room for so many pages");
        let DuePage { due_ns, objects, connections } = due;
        let count = objects.len() as u32;
        let bytes = objects.iter().sum();
        let loading = Loading { index, due_ns, left: objects.into(), waiting: 0, objects: count, bytes };
        self.pages.insert(number, loading);
        let (to, first_hops) = self.next_way(index);
        for connection in 0..count.min(connections) {
            let hops = if connection == 0 { first_hops } else { self.further_way(index, to) };
            self.connect_to(index, to, hops, None, Some(number));
        }
    }

    /// Deals with what a packet meant to a connection of the page `number`: the next object is requested, or, if there is none, the
    /// connection closes.
    pub(super) fn attend_page(&mut self, connection: u32, number: NonZeroU32, notices: u8) {
        let fetch = &mut self.fetches[connection as usize];
        let session = &mut self.sessions[fetch.session as usize];
        let now_ns = self.net.now_ns;
        // its flow was stopped, or its other connections have fetched all
        let Some(page) = self.pages.get_mut(&number) else {
            fetch.close(&mut self.net, &self.config);
            return;
        };
        while let Some(object) = fetch.take_arrived() {
            session.arrived_bytes += object.size_bytes.unwrap_or(0);
            page.waiting -= 1;
        }
        if notices & (notice::CONNECTED | notice::RESPONSE) != 0 {
            match page.left.pop_front() {
                Some(bytes) => {
                    page.waiting += 1;
                    fetch.ask(now_ns, Some(bytes), &mut self.net, &self.config);
                }
                None => fetch.close(&mut self.net, &self.config),
            }
        }
        if page.left.is_empty() && page.waiting == 0 {
            let Loading { index, due_ns, objects, bytes, .. } = *page;
            let loaded =
                PageLoad { begun_s: seconds(due_ns), load_s: seconds(now_ns - due_ns), objects, bytes };
            self.pages.remove(&number);
            session.on_page(&self.scenario.flows[index as usize], loaded, now_ns);
        }
    }

    /// A flow is stopped: nothing more is requested of its pages.
    pub(super) fn drop_pages(&mut self, index: u32) {
        self.pages.retain(|_, page| page.index != index);
    }
}
