//! Proportional rate reduction (RFC 6937) as Linux does it: during a reduction what is sent is in proportion to what
//! arrives, so that the pipe comes down to the new window within a round trip, without a pause and without a burst.

/// A reduction in hand. Everything in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    ssthresh: u32,
    prior_cwnd: u32,
    delivered: u32,
    out: u32,
    cwnd: u32,
}

impl Prr {
    /// A reduction from `prior_cwnd` to `ssthresh` begins.
    pub fn begin(prior_cwnd: u32, ssthresh: u32) -> Prr {
        Prr { ssthresh, prior_cwnd: prior_cwnd.max(1), delivered: 0, out: 0, cwnd: prior_cwnd }
    }

    /// Window for now.
    pub fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// The window is this instead, until an ACK determines what it should be.
    pub fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }

    /// Segments have left.
    pub fn on_sent(&mut self, segs: u32) {
        self.out += segs;
    }

    /// An ACK delivered `segs` and leaves `pipe` in the network (RFC 6937, section 3.1; the slow start part only while
    /// una advances and nothing more is lost).
    pub fn on_delivered(&mut self, segs: u32, pipe: u32, has_progress: bool, has_new_loss: bool) {
        if segs == 0 {
            return;
        }
        self.delivered += segs;
        let mut send = if pipe > self.ssthresh {
            let share = u64::from(self.delivered) * u64::from(self.ssthresh);
            (share.div_ceil(u64::from(self.prior_cwnd)) as u32).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(segs);
            (bound + u32::from(has_progress && !has_new_loss)).min(self.ssthresh - pipe)
        };
        if self.out == 0 {
            send = send.max(1); // the fast retransmit itself
        }
        self.cwnd = pipe + send;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937, section 3.1: 20 in flight, one lost, window halved: the pipe ends at 10 without a silence.
    #[test]
    fn a_single_loss_halves_the_pipe_in_a_round_trip() {
        let mut prr = Prr::begin(20, 10);
        let mut pipe = 19;
        let mut longest_silence = 0;
        let mut silence = 0;
        for _ in 0..19 {
            pipe -= 1;
            prr.on_delivered(1, pipe, false, false);
            let send = prr.cwnd() - pipe;
            prr.on_sent(send);
            pipe += send;
            silence = if send > 0 { 0 } else { silence + 1 };
            longest_silence = longest_silence.max(silence);
        }
        assert_eq!(pipe, 10);
        assert!(longest_silence <= 2, "{longest_silence}");
    }

    /// A burst of losses leaves the pipe below the new window: it grows by one segment more than arrives, at most.
    #[test]
    fn after_a_burst_of_losses_the_pipe_grows_slowly() {
        let mut prr = Prr::begin(20, 10);
        let mut pipe = 4;
        for arrived in 1..=4 {
            pipe -= 1;
            prr.on_delivered(1, pipe, true, false);
            let send = prr.cwnd() - pipe;
            prr.on_sent(send);
            pipe += send;
            assert_eq!(pipe, 4 + arrived);
        }
    }
}
