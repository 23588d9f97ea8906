//! Plain data in the values of BPF maps: structs of the core, which have no padding and no pointers.

/// The number at this place of a map's value; 0 beyond its end.
pub(crate) fn u32_at(value: &[u8], at: usize) -> u32 {
    value.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")))
}

/// The number at this place of a map's value; 0 beyond its end.
pub(crate) fn u64_at(value: &[u8], at: usize) -> u64 {
    value.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

/// The bytes of a struct of the core.
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: as many bytes as the value has, for as long as it is borrowed.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A struct of the core, for which any bytes are valid; none: they are too few.
pub(crate) fn from_bytes<T: Copy>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and they need not be aligned.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::abi::wl_native_config;

    #[test]
    fn plain_data_is_read_back_from_any_alignment() {
        let config = wl_native_config { cong_control_args: 4, ..Default::default() };
        for offset in 0..8 {
            let mut bytes = vec![0xff; offset];
            bytes.extend_from_slice(bytes_of(&config));
            let back: wl_native_config = from_bytes(&bytes[offset..]).expect("enough bytes");
            assert_eq!(bytes_of(&back), bytes_of(&config));
        }
    }

    #[test]
    fn plain_data_is_not_read_from_too_few_bytes() {
        assert_eq!(from_bytes::<u64>(&[0; 7]), None);
        assert_eq!((u32_at(&[1; 4], 1), u64_at(&[1; 8], 1)), (0, 0));
        assert_eq!((u32_at(&[], 0), u64_at(&[], 0)), (0, 0));
    }
}
