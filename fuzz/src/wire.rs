//! Any bytes at a guest's port, and at its host's.

use windlass_core::GroupRule;
use windlass_guest::{
    Config, Controller, Session,
    wire::{Message, Reader, encode},
};

/// Reads the bytes as frames, passes them to a guest and to a controller, and makes sure that both still work.
pub fn wire(data: &[u8]) {
    again(data);
    let mut greeting = Vec::new();
    encode(1, &Message::Hello, &mut greeting);

    let mut session = Session::default();
    session.connected(0);
    let events = session.receive(data, 1);
    assert!(!session.is_coupled(), "nobody knew the session's number: {events:?}");

    let rule = GroupRule::by_name("ccc").expect("a rule of the list");
    let mut controller = Controller::new(Config::new(rule)).expect("a rule that exists");
    let ids = [controller.add_guest("any", 1), controller.add_guest("other", 1)];
    let (mut out, mut events) = (Vec::new(), Vec::new());
    controller.receive(ids[1], &greeting, 0, &mut out, &mut events);
    controller.receive(ids[0], &greeting, 0, &mut out, &mut events);
    controller.receive(ids[0], data, 1, &mut out, &mut events);
    let guests = controller.guests();
    assert!(guests[1].is_coupled && guests[1].flows == 0, "{guests:?}");
}

/// What is read and written again is the same.
fn again(data: &[u8]) {
    let mut reader = Reader::default();
    reader.push(data);
    loop {
        match reader.next_frame() {
            Ok(None) => return,
            Ok(Some(frame)) => {
                let mut bytes = Vec::new();
                // a frame of entries is read only after one that begins a session
                encode(frame.session, &Message::Hello, &mut bytes);
                encode(frame.session, &frame.message, &mut bytes);
                let mut second = Reader::default();
                second.push(&bytes);
                second.next_frame().expect("our own").expect("whole");
                assert_eq!(second.next_frame(), Ok(Some(frame)));
            }
            Err(_) => {}
        }
    }
}
