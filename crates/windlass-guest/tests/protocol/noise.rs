//! Whatever either side sends, and in whatever order flows report.

use crate::{common::report, site::Site};
use proptest::prelude::*;
use windlass_guest::{
    controller,
    session::Event,
    wire::{Message, Op, Report, encode},
};

proptest! {
    #[test]
    fn a_host_that_sends_anything_leaves_flows_alone_and_is_believed_when_it_is_back(
        noise in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let mut site = Site::new(&[1]);
        site.found(40);
        let events = site.guests[0].1.receive(&noise, site.now_us);
        prop_assert!(events.iter().all(|e| matches!(e, Event::Alone(_))), "{:?}", events);
        let mut bye = Vec::new();
        // enough to complete whatever the noise may have begun
        (0..2000).for_each(|_| encode(0, &Message::Bye, &mut bye));
        site.guests[0].1.receive(&bye, site.now_us);
        let events = site.exchange(0);
        prop_assert!(matches!(events.as_slice(), [Event::Coupled, Event::Answer(_)]), "{:?}", events);
    }

    #[test]
    fn a_guest_that_sends_anything_harms_no_other(
        noise in prop::collection::vec(any::<u8>(), 1..400),
    ) {
        let mut site = Site::new(&[1, 1]);
        site.found(40);
        site.share_segs(1, report(1, 1, Op::Register, 10));
        let (mut answer, mut heard) = (Vec::new(), Vec::new());
        site.controller.receive(site.guests[1].0, &noise, site.now_us as u32, &mut answer, &mut heard);
        let share = site.update_segs(0, 1);
        let is_gone = heard.iter().any(|e| matches!(e, controller::Event::Nonsense(_)));
        prop_assert_eq!(share, if is_gone { 40 } else { 20 });
    }

    #[test]
    fn any_order_of_reports_keeps_the_books(
        steps in prop::collection::vec((0usize..3, 0u64..6, 0u8..3, 1u32..100, any::<bool>()), 1..200),
    ) {
        let mut site = Site::new(&[1, 2, 3]);
        let mut seq = 0;
        for (at, flow, op, segs, is_limited) in steps {
            seq += 1;
            let op = [Op::Register, Op::Update, Op::Leave][usize::from(op)];
            site.say(at, Report { is_cwnd_limited: is_limited, ..report(flow, seq, op, segs) });
            for (at, info) in site.controller.guests().iter().enumerate() {
                prop_assert!(info.is_coupled);
                // those that were silent for long may have been collected
                prop_assert!(info.flows <= site.guests[at].1.flows());
            }
        }
    }
}
