//! The probe in the path of a health request, and its parameters.

/// A health endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Fails if the server should be restarted.
    Live,
    /// Fails if the server should get no requests.
    Ready,
    /// The older endpoint that the other two replace.
    Health,
}

impl Probe {
    const ALL: [Probe; 3] = [Probe::Live, Probe::Ready, Probe::Health];

    /// The name in the path and in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Probe::Live => "livez",
            Probe::Ready => "readyz",
            Probe::Health => "healthz",
        }
    }

    /// Parses the probe of a path, and the check if the path names one: `/readyz` or `/readyz/store`.
    pub(crate) fn of_path(path: &str) -> Option<(Probe, Option<&str>)> {
        let path = path.strip_prefix('/')?;
        let (name, check) = match path.split_once('/') {
            Some((name, check)) => (name, Some(check)),
            None => (path, None),
        };
        let probe = Probe::ALL.into_iter().find(|probe| probe.name() == name)?;
        Some((probe, check))
    }
}

/// The parameters of the query. Names of checks need no percent-encoding, so none is decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes<'a> {
    /// List the checks also when all of them pass.
    pub(crate) verbose: bool,
    /// Checks to skip.
    pub(crate) excluded: Vec<&'a str>,
}

impl<'a> Wishes<'a> {
    pub(crate) fn of_query(query: &'a str) -> Self {
        let mut wishes = Self::default();
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", _) => wishes.verbose = true,
                ("exclude", name) if !name.is_empty() => wishes.excluded.push(name),
                _ => {}
            }
        }
        wishes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(Probe::of_path("/livez"), Some((Probe::Live, None)));
        assert_eq!(Probe::of_path("/readyz/store"), Some((Probe::Ready, Some("store"))));
        assert_eq!(Probe::of_path("/healthz/"), Some((Probe::Health, Some(""))));
        for other in ["", "/", "/livezz", "livez", "/api/livez"] {
            assert_eq!(Probe::of_path(other), None, "{other}");
        }
    }

    #[test]
    fn queries() {
        assert_eq!(Wishes::of_query(""), Wishes::default());
        assert_eq!(Wishes::of_query("timeout=3s&exclude="), Wishes::default());
        let wishes = Wishes::of_query("exclude=store&verbose&exclude=ping");
        assert_eq!(wishes, Wishes { verbose: true, excluded: vec!["store", "ping"] });
        assert!(Wishes::of_query("verbose=true").verbose);
    }
}
