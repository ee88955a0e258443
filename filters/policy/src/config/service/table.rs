//! From one row for each parameter: what a user may write, what the code reads, the check, the
//! merge, the texts for comparisons and for people, the JSON Schema.

/// Makes a type for what is written and one for what was checked.
///
/// A row of `values` has the name in the code, the name in a file, and the kind with its default
/// and range; of one that came after 0.1.0 also `=> "feature" Omit` or `Withhold`, which is what a
/// proxy without the feature gets. An absent value is `None`, and a value of a particular spec
/// replaces that of the general one. `lists` are kinds of their own: absent is the default of what
/// is written, and `skip` says when it is not sent. `later` has values that came after 0.1.0, with
/// the field before and the feature behind. `withdrawn` are names of earlier versions: read, and
/// without effect.
macro_rules! parameters {
    (
        $(#[$spec_doc:meta])* written $Spec:ident,
        $(#[$all_doc:meta])* checked $Parameters:ident,
        values {
            $($(#[doc = $doc:literal])+ $field:ident $name:literal: $Kind:ty = $kind:expr $(=> $feature:literal $instead:ident)?;)+
        }
        lists { $($(#[doc = $list_doc:literal])+ $list:ident $list_name:literal skip $skip:literal: $ListKind:ident;)* }
        later { $($of:literal $value:literal => $value_feature:literal $value_instead:ident;)* }
        withdrawn { $($withdrawn:literal;)* }
    ) => {
        $(#[$spec_doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $Spec {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<<$Kind as Kind>::Written>,)+
            $($(#[doc = $list_doc])+ #[serde(skip_serializing_if = $skip)]
            pub $list: <$ListKind as List>::Written,)*
            /// Names of earlier versions that were written.
            #[serde(skip)]
            pub withdrawn: Vec<&'static str>,
        }

        $(#[$all_doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Parameters {
            $(pub(super) $field: <$Kind as Kind>::Value,)+
            $(pub(super) $list: <$ListKind as List>::Value,)*
        }

        impl $Spec {
            /// What came after 0.1.0, with the feature of each, and what a proxy without it gets.
            pub const LATER: &[Rule] = &[
                $($(Rule { field: $name, value: None, feature: $feature, instead: crate::config::features::table::Instead::$instead },)?)+
                $(Rule { field: $of, value: Some($value), feature: $value_feature, instead: crate::config::features::table::Instead::$value_instead },)*
            ];

            /// The names in a file.
            pub const NAMES: &[&str] = &[$($name,)+ $($list_name,)*];

            /// The names of earlier versions, which have no effect any more.
            pub const WITHDRAWN: &[&str] = &[$($withdrawn,)*];

            /// Checks each value on its own.
            fn checked(&self) -> Result<$Parameters, ConfigError> {
                Ok($Parameters {
                    $($field: ($kind).checked($name, self.$field.as_ref())?,)+
                    $($list: $ListKind::check($list_name, &self.$list)?,)*
                })
            }

            /// The values of this spec, and those of `base` where it has none.
            #[must_use]
            pub fn or(self, base: Self) -> Self {
                let is_written = |name: &&str| self.withdrawn.contains(name) || base.withdrawn.contains(name);
                let withdrawn = Self::WITHDRAWN.iter().copied().filter(is_written).collect();
                Self {
                    $($field: self.$field.or(base.$field),)+
                    $($list: $ListKind::or(self.$list, base.$list),)*
                    withdrawn,
                }
            }
        }

        impl $Parameters {
            $($(#[doc = $doc])+
            pub fn $field(&self) -> <$Kind as Kind>::Value {
                self.$field
            })+

            /// All values by name, as text for comparisons.
            fn texts(&self) -> std::collections::BTreeMap<String, String> {
                let mut texts = std::collections::BTreeMap::new();
                $(texts.insert($name.to_owned(), <$Kind as Kind>::canonical(&self.$field));)+
                $(texts.extend($ListKind::canonical($list_name, &self.$list));)*
                texts
            }
        }

        impl<'de> serde::Deserialize<'de> for $Spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $Spec;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str("a mapping")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$Spec, A::Error> {
                        use serde::de::Error;
                        let (mut spec, mut seen) = ($Spec::default(), Vec::new());
                        while let Some(name) = map.next_key::<String>()? {
                            let mut names = $Spec::NAMES.iter().chain($Spec::WITHDRAWN);
                            let Some(known) = names.find(|known| **known == name) else {
                                map.next_value_seed(Unknown(&name, $Spec::NAMES))?;
                                continue;
                            };
                            if seen.contains(known) {
                                return Err(A::Error::duplicate_field(known));
                            }
                            seen.push(known);
                            match *known {
                                $($name => spec.$field = map.next_value_seed(Read($kind))?,)+
                                $($list_name => spec.$list = map.next_value_seed(ReadList::<$ListKind>::default())?,)*
                                old => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                    spec.withdrawn.push(old);
                                }
                            }
                        }
                        Ok(spec)
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }

        #[cfg(feature = "schema")]
        impl $Spec {
            /// What people are told of each parameter that they may set, in the order of the table.
            pub fn documented() -> Vec<Documented> {
                vec![$(Documented::new(&[$($doc),+], $name, ($kind).allowed(), ($kind).default_text())),+]
            }

            /// Name, value as people read it, and whether it was written, in the order of the
            /// table.
            pub fn shown(&self, checked: &$Parameters) -> Vec<(&'static str, String, bool)> {
                vec![
                    $(($name, <$Kind as Kind>::shown(&checked.$field), self.$field.is_some()),)+
                ]
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $Spec {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Spec).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut properties = serde_json::Map::new();
                $(properties.insert($name.to_owned(), described(&[$($doc),+], ($kind).schema()));)+
                $(properties.insert($list_name.to_owned(), described(&[$($list_doc),+], $ListKind::schema()));)*
                schemars::json_schema!({"type": "object", "additionalProperties": false, "properties": properties})
            }
        }
    };
}
pub(crate) use parameters;
