//! The hooks of a flow's algorithm, called as every home has them called.

use super::flow;
use windlass_core::{
    Algorithm,
    abi::{self, wl_sample},
};

/// What the algorithm before it kept of the flow means nothing to one that takes over.
#[test]
fn an_algorithm_begins_with_a_state_of_zeros() {
    for algorithm in Algorithm::all() {
        let begun = |left: u64| {
            let mut f = flow(0);
            f.state_mut().algorithm = algorithm.id() as u8;
            f.state_mut().alg.words.fill(left);
            f.call(abi::WL_CALL_INIT, &mut wl_sample::default(), 0, 0);
            (f.state().alg, f.state().decision)
        };
        assert!(begun(0) == begun(u64::MAX), "{algorithm:?}");
    }
}
