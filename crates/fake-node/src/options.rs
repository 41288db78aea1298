//! Number and properties of simulated nodes.

use std::fmt;
use std::str::FromStr;

use coracle_meta::quantity::Quantity;

/// Maximum number of nodes per cluster: ten times the limit Kubernetes is designed for.
const MAX_NODES: u32 = 50_000;

/// Simulated nodes to create when a cluster starts.
///
/// ```
/// use coracle_fake_node::FakeNodes;
///
/// let nodes: FakeNodes = "100,cpu=8,memory=32Gi,zones=5,taint=dedicated=tests:NoSchedule".parse()?;
/// assert_eq!((nodes.count, nodes.zones, &*nodes.cpu), (100, 5, "8"));
/// # Ok::<(), coracle_fake_node::FakeNodesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeNodes {
    /// Number of nodes: `fake-0` and so on. Zero if the user creates the nodes.
    pub count: u32,
    /// Number of zones over which the nodes are distributed in turn.
    pub zones: u32,
    /// CPU capacity of a node, as a quantity.
    pub cpu: String,
    /// Memory capacity of a node, as a quantity.
    pub memory: String,
    /// Maximum number of pods of a node.
    pub pods: u32,
    /// Taints of the nodes.
    pub taints: Vec<FakeTaint>,
    /// Images that cannot be pulled on the nodes; a trailing `*` matches any suffix.
    pub missing_images: Vec<String>,
}

/// A taint of simulated nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeTaint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Why a setting of simulated nodes is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct FakeNodesError {
    text: String,
    expected: &'static str,
}

impl FakeNodes {
    /// Nodes with KWOK's defaults: 32 CPUs, 256 GiB, 110 pods, in three zones.
    pub fn new(count: u32) -> Self {
        let (cpu, memory) = ("32".to_owned(), "256Gi".to_owned());
        Self { count, zones: 3, cpu, memory, pods: 110, taints: Vec::new(), missing_images: Vec::new() }
    }

    fn set(&mut self, setting: &str) -> Result<(), FakeNodesError> {
        let expected = "cpu=, memory=, pods=, zones=, taint= or missing-image= with a value";
        let (name, value) = setting.split_once('=').ok_or_else(|| error(setting, expected))?;
        match name {
            "cpu" => self.cpu = quantity(value)?,
            "memory" => self.memory = quantity(value)?,
            "pods" => self.pods = positive(value)?,
            "zones" => self.zones = positive(value)?,
            "taint" => self.taints.push(value.parse()?),
            "missing-image" => self.missing_images.push(value.to_owned()),
            _ => return Err(error(setting, expected)),
        }
        Ok(())
    }
}

impl FromStr for FakeNodes {
    type Err = FakeNodesError;

    /// Parses `N[,cpu=Q][,memory=Q][,pods=N][,zones=N][,taint=KEY[=VALUE]:EFFECT][,missing-image=NAME]`.
    fn from_str(text: &str) -> Result<Self, FakeNodesError> {
        let mut parts = text.split(',');
        let count = number(parts.next().unwrap_or_default())?;
        if count > MAX_NODES {
            return Err(error(text, "a number of nodes up to 50000"));
        }
        let mut nodes = Self::new(count);
        for setting in parts {
            nodes.set(setting)?;
        }
        Ok(nodes)
    }
}

impl FromStr for FakeTaint {
    type Err = FakeNodesError;

    fn from_str(text: &str) -> Result<Self, FakeNodesError> {
        let expected = "a taint such as key=value:NoSchedule";
        let (name, effect) = text.rsplit_once(':').ok_or_else(|| error(text, expected))?;
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(error(text, expected));
        }
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    }
}

impl fmt::Display for FakeNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, zones, cpu, memory, pods, taints, missing_images } = self;
        write!(f, "{count},cpu={cpu},memory={memory},pods={pods},zones={zones}")?;
        for FakeTaint { key, value, effect } in taints {
            write!(f, ",taint={key}={value}:{effect}")?;
        }
        missing_images.iter().try_for_each(|image| write!(f, ",missing-image={image}"))
    }
}

fn error(text: &str, expected: &'static str) -> FakeNodesError {
    FakeNodesError { text: text.to_owned(), expected }
}

fn number(text: &str) -> Result<u32, FakeNodesError> {
    text.parse().map_err(|_| error(text, "a number"))
}

fn positive(text: &str) -> Result<u32, FakeNodesError> {
    Some(number(text)?).filter(|number| *number > 0).ok_or_else(|| error(text, "a number above 0"))
}

fn quantity(text: &str) -> Result<String, FakeNodesError> {
    let is_positive = text.parse::<Quantity>().is_ok_and(|quantity| quantity > Quantity::default());
    if is_positive { Ok(text.to_owned()) } else { Err(error(text, "a quantity above 0, such as 8 or 32Gi")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_and_formatted() {
        let nodes: FakeNodes =
            "7,pods=20,taint=a:NoExecute,taint=b=c:NoSchedule,missing-image=a/b:1".parse().unwrap();
        assert_eq!((nodes.count, nodes.pods, nodes.zones, nodes.taints.len()), (7, 20, 3, 2));
        assert_eq!(nodes.to_string().parse(), Ok(nodes));
        assert_eq!("0".parse(), Ok(FakeNodes::new(0)));
    }

    #[test]
    fn invalid_setting_is_named() {
        for wrong in ["", "x", "-1", "5,cpu", "5,cpu=fast", "5,gpu=1", "5,taint=a", "5,taint=a:Now", "50001"]
            .into_iter()
            .chain(["5,cpu=0", "5,memory=0Gi", "5,zones=0", "5,pods=0"])
        {
            assert!(wrong.parse::<FakeNodes>().is_err(), "{wrong}");
        }
        let message = "5,cpu=fast".parse::<FakeNodes>().unwrap_err().to_string();
        assert_eq!(message, r#""fast" is not a quantity above 0, such as 8 or 32Gi"#);
    }
}
