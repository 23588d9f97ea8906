//! Numbers from the bytes of an input.

/// The bytes, read as numbers; zeros behind their end.
pub(crate) struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The next two.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// The next four.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// Small numbers mostly.
    pub fn number(&mut self) -> u32 {
        match self.u8() {
            n @ 0..160 => n.into(),
            n @ 160..230 => u32::from(n - 160) << 8 | u32::from(self.u8()),
            n @ 230..250 => u32::from(n - 230) << 16 | u32::from(self.u16()),
            _ => self.u32(),
        }
    }
}
