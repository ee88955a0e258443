//! One service or cluster, as each plugin configuration wants it.
//!
//! Envoy keeps a configuration as long as a listener or a stream has it: beside the newest one there
//! are those whose listeners drain, those that were rolled back to, and those of other listeners.
//! Each request goes by its own. Configurations that say the same of a service share a view of it,
//! as all do of what the control plane says.

use crate::parameters::PluginId;

/// A view of something under the configurations that agree on it.
pub trait View: Sized {
    /// What a configuration says of it.
    type Parameters: PartialEq;

    /// Whether these parameters would change nothing.
    fn agrees(&self, parameters: &Self::Parameters) -> bool;
    /// These are its parameters from now on.
    fn configure(&mut self, parameters: Self::Parameters);
    /// The same thing under other parameters.
    fn beside(&self, parameters: Self::Parameters) -> Self;
}

/// Something, as each configuration wants it that wants it at all.
pub struct Views<V>(Vec<(Vec<PluginId>, V)>);

impl<V> Default for Views<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Views<V> {
    /// As this configuration wants it, if it does.
    #[inline]
    pub fn get(&self, plugin: PluginId) -> Option<&V> {
        self.0.iter().find(|(plugins, _)| plugins.contains(&plugin)).map(|(_, view)| view)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, plugin: PluginId) -> Option<&mut V> {
        self.0.iter_mut().find(|(plugins, _)| plugins.contains(&plugin)).map(|(_, view)| view)
    }

    /// As the configuration wants it that came last.
    pub fn newest(&self) -> Option<&V> {
        self.0.iter().max_by_key(|(plugins, _)| plugins.iter().max()).map(|(_, view)| view)
    }

    /// All views.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, view)| view)
    }

    /// All views, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, view)| view)
    }
}

impl<V: View> Views<V> {
    /// These configurations want it, with these parameters. `make` makes the first view of it.
    pub fn apply(
        &mut self,
        wanted: impl IntoIterator<Item = (PluginId, V::Parameters)>,
        make: impl Fn(V::Parameters) -> V,
    ) {
        let mut groups: Vec<(Vec<PluginId>, V::Parameters)> = Vec::new();
        for (plugin, parameters) in wanted {
            match groups.iter_mut().find(|(_, known)| *known == parameters) {
                Some((plugins, _)) => plugins.push(plugin),
                None => groups.push((vec![plugin], parameters)),
            }
        }
        let mut before: Vec<_> = std::mem::take(&mut self.0);
        // First those that stay as they are, then those that change: a view that a configuration
        // leaves may be another one's still.
        groups.retain_mut(|(plugins, parameters)| {
            let same = before.iter().position(|(_, view)| view.agrees(parameters));
            let same = same.map(|place| before.swap_remove(place).1);
            same.map(|view| self.0.push((std::mem::take(plugins), view))).is_none()
        });
        for (plugins, parameters) in groups {
            let own = before.iter().position(|(before, _)| before.iter().any(|plugin| plugins.contains(plugin)));
            let view = match own.map(|place| before.swap_remove(place).1) {
                Some(mut view) => {
                    view.configure(parameters);
                    view
                }
                // Somebody else's tells more of it than none.
                None => match self.newest().or_else(|| before.first().map(|(_, view)| view)) {
                    Some(view) => view.beside(parameters),
                    None => make(parameters),
                },
            };
            self.0.push((plugins, view));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its parameters, what it has learned, and whether it was made beside another one.
    #[derive(Clone, Debug, PartialEq)]
    struct Thing(u32, &'static str);

    impl View for Thing {
        type Parameters = u32;
        fn agrees(&self, parameters: &u32) -> bool {
            self.0 == *parameters
        }
        fn configure(&mut self, parameters: u32) {
            self.0 = parameters;
        }
        fn beside(&self, parameters: u32) -> Self {
            Self(parameters, "beside")
        }
    }

    const A: PluginId = PluginId::new(1);
    const B: PluginId = PluginId::new(2);

    fn views(wanted: &[&[(PluginId, u32)]]) -> [Option<Thing>; 2] {
        let mut views = Views::default();
        for wanted in wanted {
            views.apply(wanted.iter().copied(), |parameters| Thing(parameters, "made"));
        }
        [A, B].map(|plugin| views.get(plugin).cloned())
    }

    #[test]
    fn each_configuration_has_its_own_as_long_as_it_is_there() {
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 2)]]), [Some(Thing(1, "made")), Some(Thing(2, "beside"))]);
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 2)], &[(A, 1)]]), [Some(Thing(1, "made")), None]);
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 2)], &[(B, 2)]]), [None, Some(Thing(2, "beside"))]);
    }

    #[test]
    fn those_that_agree_share_one() {
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 1)]]), [Some(Thing(1, "made")), Some(Thing(1, "made"))]);
        // The control plane says something of it, and nothing again.
        let (one, two, same) = ([(A, 1)], [(A, 1), (B, 2)], [(A, 3), (B, 3)]);
        assert_eq!(views(&[&one, &two, &same]), [Some(Thing(3, "made")), Some(Thing(3, "made"))]);
        assert_eq!(views(&[&one, &two, &same, &two]), [Some(Thing(1, "made")), Some(Thing(2, "beside"))]);
    }

    #[test]
    fn new_parameters_change_the_view_that_is_there() {
        assert_eq!(views(&[&[(A, 1)], &[(A, 2)]]), [Some(Thing(2, "made")), None]);
        assert_eq!(views(&[&[(A, 1)], &[]]), [None, None]);
        assert_eq!(views(&[&[(A, 1)], &[(B, 2)]]), [None, Some(Thing(2, "beside"))], "what is known stays");
    }
}
