//! One service or cluster, under each plugin configuration.
//!
//! Envoy keeps a configuration as long as a listener or a stream has it. Besides the newest one
//! there are those of draining listeners, of rolled-back listeners, and of other listeners. Each
//! request follows its own. Configurations with the same parameters for a service share a view of
//! it; under parameters from the control plane, all do.

use crate::parameters::PluginId;

/// A view of something, shared by the configurations that agree on it.
pub trait View: Sized {
    /// What a configuration says of it.
    type Parameters: PartialEq;

    /// Whether these parameters would change nothing.
    fn agrees(&self, parameters: &Self::Parameters) -> bool;
    /// Applies new parameters.
    fn configure(&mut self, parameters: Self::Parameters);
    /// The same thing under other parameters.
    fn beside(&self, parameters: Self::Parameters) -> Self;
}

/// Something, under each configuration that has parameters for it.
pub struct Views<V> {
    /// The view of each configuration, oldest first.
    of: Vec<(PluginId, usize)>,
    views: Vec<V>,
}

impl<V> Default for Views<V> {
    fn default() -> Self {
        Self { of: Vec::new(), views: Vec::new() }
    }
}

impl<V> Views<V> {
    #[inline]
    fn place(&self, plugin: PluginId) -> Option<usize> {
        self.of.iter().find(|(known, _)| *known == plugin).map(|(_, place)| *place)
    }

    /// The view of this configuration, if it has one.
    #[inline]
    pub fn get(&self, plugin: PluginId) -> Option<&V> {
        self.views.get(self.place(plugin)?)
    }

    /// Likewise, mutable.
    #[inline]
    pub fn get_mut(&mut self, plugin: PluginId) -> Option<&mut V> {
        let place = self.place(plugin)?;
        self.views.get_mut(place)
    }

    /// The configuration that came last.
    pub fn newest(&self) -> Option<PluginId> {
        self.of.last().map(|(plugin, _)| *plugin)
    }

    /// All views.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        self.views.iter()
    }

    /// All views, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.views.iter_mut()
    }
}

impl<V: View> Views<V> {
    /// Applies the parameters of these configurations, the newest last. `make` makes the first
    /// view.
    pub fn apply(
        &mut self,
        wanted: impl IntoIterator<Item = (PluginId, V::Parameters)>,
        make: impl Fn(V::Parameters) -> V,
    ) {
        let mut distinct: Vec<Option<V::Parameters>> = Vec::new();
        let mut of = Vec::new();
        for (plugin, parameters) in wanted {
            let known = distinct.iter().position(|known| known.as_ref() == Some(&parameters));
            of.push((plugin, known.unwrap_or(distinct.len())));
            if known.is_none() {
                distinct.push(Some(parameters));
            }
        }
        let mut before: Vec<Option<V>> = std::mem::take(&mut self.views).into_iter().map(Some).collect();
        // First the views that stay as they are, then those that change: a view that one
        // configuration leaves may still be another's.
        let mut views: Vec<Option<V>> = Vec::new();
        for parameters in &mut distinct {
            let agrees = |view: &Option<V>| {
                view.as_ref().zip(parameters.as_ref()).is_some_and(|(view, parameters)| view.agrees(parameters))
            };
            let same = before.iter().position(agrees).and_then(|place| before.get_mut(place)?.take());
            if same.is_some() {
                *parameters = None;
            }
            views.push(same);
        }
        for (place, parameters) in distinct.into_iter().enumerate() {
            let Some(parameters) = parameters else { continue };
            let plugins = of.iter().rev().filter(|(_, wanted)| *wanted == place).map(|(plugin, _)| *plugin);
            let own = plugins.filter_map(|plugin| self.place(plugin));
            let own = own.into_iter().find_map(|place| before.get_mut(place)?.take());
            let view = match own {
                Some(mut view) => {
                    view.configure(parameters);
                    view
                }
                // Another configuration's view knows more than a new one.
                None => match views.iter().rev().chain(before.iter().rev()).flatten().next() {
                    Some(view) => view.beside(parameters),
                    None => make(parameters),
                },
            };
            if let Some(made) = views.get_mut(place) {
                *made = Some(view);
            }
        }
        (self.of, self.views) = (of, views.into_iter().flatten().collect());
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
    fn each_configuration_has_its_own_view_while_it_exists() {
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 2)]]), [Some(Thing(1, "made")), Some(Thing(2, "beside"))]);
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 2)], &[(A, 1)]]), [Some(Thing(1, "made")), None]);
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 2)], &[(B, 2)]]), [None, Some(Thing(2, "beside"))]);
    }

    #[test]
    fn configurations_with_equal_parameters_share_a_view() {
        assert_eq!(views(&[&[(A, 1)], &[(A, 1), (B, 1)]]), [Some(Thing(1, "made")), Some(Thing(1, "made"))]);
        // The control plane sets parameters for it, and then no longer does.
        let (one, two, same) = ([(A, 1)], [(A, 1), (B, 2)], [(A, 3), (B, 3)]);
        let newest = Some(Thing(3, "beside"));
        assert_eq!(views(&[&one, &two, &same]), [newest.clone(), newest], "what the newest has learned");
        assert_eq!(views(&[&one, &two, &same, &two]), [Some(Thing(1, "beside")), Some(Thing(2, "beside"))]);
    }

    #[test]
    fn new_parameters_reconfigure_the_existing_view() {
        assert_eq!(views(&[&[(A, 1)], &[(A, 2)]]), [Some(Thing(2, "made")), None]);
        assert_eq!(views(&[&[(A, 1)], &[]]), [None, None]);
        assert_eq!(views(&[&[(A, 1)], &[(B, 2)]]), [None, Some(Thing(2, "beside"))], "what is known stays");
    }
}
