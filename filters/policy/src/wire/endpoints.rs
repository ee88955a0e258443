//! The value of `x-bloc-endpoints`: a request's servers in order, and its key.
//!
//! `10.0.0.1:80,10.0.0.2:80,~00000000000000ab`: addresses, then `~` and the key in 16 lower-case
//! hexadecimal digits. Envoy's `override_host` policy tries the nth member for the nth attempt, and
//! skips one that is no host of the cluster, such as the key. The key tells `bloc.attempt` which
//! request an attempt belongs to. Each request writes a value, so only the caller's buffer is
//! allocated.

/// Identifies a request within one VM; issued by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(u64);

impl RequestKey {
    /// The request with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The request's number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Starts a key; no address contains it.
const MARK: u8 = b'~';
/// The length of a key including its mark.
const WITH_MARK: usize = 17;

/// Writes the addresses and the key into `into`, after clearing it.
pub fn encode<'a>(addresses: impl Iterator<Item = &'a str>, key: RequestKey, into: &mut Vec<u8>) {
    into.clear();
    for address in addresses {
        into.extend_from_slice(address.as_bytes());
        into.push(b',');
    }
    into.push(MARK);
    into.extend_from_slice(&eight_digits(key.0 >> 32));
    into.extend_from_slice(&eight_digits(key.0 & u64::from(u32::MAX)));
}

/// The value without its addresses; none if it has no addresses, or is too short for a key.
pub fn bare_key(value: &[u8]) -> Option<[u8; WITH_MARK]> {
    if value.len() > WITH_MARK { value.last_chunk().copied() } else { None }
}

/// Reads the key, which is the last member; none if that is not a key.
pub fn decode_key(value: &[u8]) -> Option<RequestKey> {
    let (before, low) = value.split_last_chunk::<8>()?;
    let (before, high) = before.split_last_chunk::<8>()?;
    if !matches!(before, [MARK] | [.., b',', MARK]) {
        return None;
    }
    Some(RequestKey(number_of(*high)? << 32 | number_of(*low)?))
}

fn number_of(digits: [u8; 8]) -> Option<u64> {
    let bytes = u64::from_be_bytes(digits);
    // Letters have this bit; they need nine more.
    let nibbles = (bytes & 0x0f0f_0f0f_0f0f_0f0f) + (bytes >> 6 & 0x0101_0101_0101_0101) * 9;
    let pairs = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let pairs = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    let number = (pairs | pairs >> 16) & 0xffff_ffff;
    (eight_digits(number) == digits).then_some(number)
}

/// The hexadecimal digits of a number below 2^32.
fn eight_digits(number: u64) -> [u8; 8] {
    // Spread the nibbles over the bytes.
    let nibbles = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte whose nibble is at least ten: those digits are letters.
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let digits = nibbles + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10);
    digits.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back_the_encoded_request_key(number: u64, servers in 0usize..9) {
            let addresses: Vec<String> = (0..servers).map(|n| format!("10.0.0.{n}:80")).collect();
            let mut text = b"left over".to_vec();
            encode(addresses.iter().map(String::as_str), RequestKey::new(number), &mut text);
            let oracle: Vec<String> = addresses.into_iter().chain([format!("~{number:016x}")]).collect();
            prop_assert_eq!(String::from_utf8_lossy(&text), oracle.join(","));
            prop_assert_eq!(decode_key(&text).map(RequestKey::get), Some(number));
            let key = bare_key(&text).map(|key| key.to_vec());
            prop_assert_eq!(key, (servers > 0).then(|| format!("~{number:016x}").into_bytes()));
        }

        #[test]
        fn decodes_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode_key(&bytes);
        }
    }

    #[test]
    fn an_empty_list_is_encoded_as_the_key_alone() {
        let mut list = Vec::new();
        encode(std::iter::empty(), RequestKey::new(0xab), &mut list);
        assert_eq!((&*list, bare_key(&list)), (&b"~00000000000000ab"[..], None));
        encode(std::iter::empty(), RequestKey::new(u64::MAX), &mut list);
        assert_eq!(list, b"~ffffffffffffffff");
    }

    #[test]
    fn finds_no_key_in_invalid_input() {
        for nonsense in [
            "",
            "~",
            "10.0.0.1:80",
            "10.0.0.1:80,",
            "00000000000000ab",
            "10.0.0.1:80,00000000000000ab",
            "~0000000000000ab",
            "~000000000000000ab",
            "~00000000000000AB",
            "~00000000000000ag",
            "~+0000000000000ab",
            "~00000000000000ab,",
            "~00000000000000ab ",
            "~00000000000000ab,10.0.0.1:80",
            "10.0.0.1:80 ~00000000000000ab",
            "10.0.0.1:80~00000000000000ab",
            "~~00000000000000ab",
            "~0000000000000\u{e9}b",
        ] {
            assert_eq!(decode_key(nonsense.as_bytes()), None, "{nonsense:?}");
        }
        assert_eq!(decode_key(b"~00000000000000a\xff"), None);
        let key = decode_key(b"~00000000000000ab,~00000000000000cd");
        assert_eq!(key, Some(RequestKey::new(0xcd)), "the last member counts");
    }
}
