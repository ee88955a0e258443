//! What a proxy runs: the version and the features of its module.

use bloc_policy::config::features::Features;

/// The longest version of a module, in bytes. A longer one, or one with anything but visible ASCII,
/// counts as none.
const MAX_VERSION: usize = 32;

/// The module of a proxy, from the headers of its poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its version, if it gives one.
    pub version: Option<String>,
    /// Its features.
    pub features: Features,
}

impl Module {
    /// From the values of [`MODULE_HEADER`](bloc_policy::config::features::MODULE_HEADER) and
    /// [`FEATURES_HEADER`](bloc_policy::config::features::FEATURES_HEADER).
    pub fn of(version: Option<&[u8]>, features: Option<&[u8]>) -> Self {
        let is_valid =
            |version: &&[u8]| (1..=MAX_VERSION).contains(&version.len()) && version.iter().all(u8::is_ascii_graphic);
        let version = version.filter(is_valid).and_then(|version| str::from_utf8(version).ok());
        Self { version: version.map(str::to_owned), features: features.map(Features::read).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_module_is_short_visible_text() {
        let version = |text: &[u8]| Module::of(Some(text), None).version;
        assert_eq!(version(b"0.1.0+x"), Some("0.1.0+x".to_owned()));
        assert_eq!(version(&[b'1'; MAX_VERSION]).map(|text| text.len()), Some(MAX_VERSION));
        for text in [&b""[..], b"a b", b"\xff", &[b'1'; MAX_VERSION + 1]] {
            assert_eq!(version(text), None, "{text:?}");
        }
    }
}
