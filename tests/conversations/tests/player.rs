//! What the player reports where a box does something else than its script has. The box here passes everything; no root is needed.

use anyhow::Result;
use windlass_conversations::{
    home::{Home, Mode, Sent},
    play::Stage,
    script::Script,
};

/// A cable.
struct Cable;

impl Home for Cable {
    fn set_now(&mut self, _now_us: u64) -> Result<()> {
        Ok(())
    }

    fn pass(&mut self, _is_from_server: bool, frame: &[u8], _gso_bytes: u32) -> Result<Option<Vec<u8>>> {
        Ok(Some(frame.to_vec()))
    }

    fn tick(&mut self) -> Result<Vec<Sent>> {
        Ok(Vec::new())
    }

    fn set_policy(&mut self, _mode: Mode, _controls_paced: bool) -> Result<()> {
        Ok(())
    }

    fn flows(&mut self) -> Result<usize> {
        Ok(0)
    }
}

fn failure(text: &str) -> Option<String> {
    let script = Script::parse(text).expect("a script");
    Stage::new(Cable).play(&script).err().map(|e| format!("{e:#}"))
}

#[test]
fn a_cable_passes_all_as_it_is() {
    let text = "# why\nopen\nserver > . 1:14601\n+20ms client < . ack 1461 sack 2921:14601\n\
                server < . ack 1461 win 65535 sack 2921:14601\n+1s box > nothing";
    assert_eq!(failure(text), None);
}

#[test]
fn what_is_expected_and_what_came_are_named_with_the_line() {
    for (text, expected) in [
        (
            "# why\nopen\nserver > . 1:14601\n+20ms client < . ack 1461\n     server < . ack 1461 win 14600",
            "line 5: of `client < . ack 1461 win 65535`\n  expected server < . ack 1461 win 14600\n  \
             actual   server < . ack 1461 win 65535",
        ),
        (
            "# why\nopen\nserver > . 1:1461\nclient > nothing",
            "line 4: of `server > . 1:1461 ack 1 win 65535`\n  expected client > nothing\n  \
             actual   client > . 1:1461 ack 1 win 65535",
        ),
        (
            "# why\nopen\nserver > . 1:1461\n+3ms box > . 1:1461",
            "line 4: of the box\n  expected box > . 1:1461\n  actual   nothing until 23000 us",
        ),
        (
            "# why\nopen\n+1ms server < . ack 1",
            "line 3: `server < . ack 1` must follow the line in which the other end sends it",
        ),
    ] {
        assert_eq!(failure(text).unwrap_or_default(), expected);
    }
}

#[test]
fn windows_that_the_client_takes_back_are_no_fault_of_the_box() {
    let text =
        "# why\nopen\nserver > . 1:1461\n+20ms client < . ack 1461 win 20000\n+1ms client < . ack 1461 win 0";
    assert_eq!(failure(text), None);
}
