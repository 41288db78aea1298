//! Resource amounts of nodes and pods, as integers.

use std::collections::BTreeMap;

use coracle_meta::quantity::Quantity;

/// Quantities by resource name, as in the API.
pub(crate) type ResourceList = BTreeMap<Box<str>, Quantity>;

/// Requests assumed for containers without requests when nodes are scored, so that not all such pods get
/// the same node: kube-scheduler's `DefaultMilliCPURequest` and `DefaultMemoryRequest`.
const ASSUMED_MILLI_CPU: i64 = 100;
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU in thousandths.
    pub(crate) milli_cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
    /// Bytes.
    pub(crate) ephemeral_storage: i64,
    /// Number of pods.
    pub(crate) pods: i64,
    /// Extended resources, huge pages and attachable volumes, sorted by name.
    pub(crate) scalars: Vec<(Box<str>, i64)>,
}

impl Resources {
    /// CPU in thousandths.
    pub fn milli_cpu(&self) -> i64 {
        self.milli_cpu
    }

    /// Memory in bytes.
    pub fn memory(&self) -> i64 {
        self.memory
    }

    /// Ephemeral storage in bytes.
    pub fn ephemeral_storage(&self) -> i64 {
        self.ephemeral_storage
    }

    /// Parses a resource list.
    pub(crate) fn of(list: &ResourceList) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            resources.set(name, quantity);
        }
        resources
    }

    /// Parses a resource list, with defaults for missing requests.
    pub(crate) fn assumed_of(list: &ResourceList) -> Self {
        let mut resources = Self::of(list);
        if !list.contains_key("cpu") {
            resources.milli_cpu = ASSUMED_MILLI_CPU;
        }
        if !list.contains_key("memory") {
            resources.memory = ASSUMED_MEMORY;
        }
        resources
    }

    /// Sets one amount.
    pub(crate) fn set(&mut self, name: &str, quantity: &Quantity) {
        match name {
            "cpu" => self.milli_cpu = quantity.milli_value(),
            "memory" => self.memory = quantity.value(),
            "ephemeral-storage" => self.ephemeral_storage = quantity.value(),
            "pods" => self.pods = quantity.value(),
            _ if is_scalar(name) => *self.scalar_mut(name) = quantity.value(),
            // Resources that are not counted on nodes, such as `storage`.
            _ => {}
        }
    }

    /// The amount of a resource that has no field of its own.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.iter().find(|(found, _)| **found == *name).map_or(0, |(_, amount)| *amount)
    }

    fn scalar_mut(&mut self, name: &str) -> &mut i64 {
        let index = match self.scalars.binary_search_by(|(found, _)| (**found).cmp(name)) {
            Ok(index) => index,
            Err(index) => {
                self.scalars.insert(index, (name.into(), 0));
                index
            }
        };
        &mut self.scalars[index].1
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.add_times(other, 1);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.add_times(other, -1);
    }

    fn add_times(&mut self, other: &Self, times: i64) {
        let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more.saturating_mul(times));
        add(&mut self.milli_cpu, other.milli_cpu);
        add(&mut self.memory, other.memory);
        add(&mut self.ephemeral_storage, other.ephemeral_storage);
        add(&mut self.pods, other.pods);
        for (name, amount) in &other.scalars {
            add(self.scalar_mut(name), *amount);
        }
    }

    /// Raises each amount to at least that of `other`.
    pub(crate) fn raise_to(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        self.pods = self.pods.max(other.pods);
        for (name, amount) in &other.scalars {
            let own = self.scalar_mut(name);
            *own = (*own).max(*amount);
        }
    }

    /// True if any amount is lower than `before`.
    pub(crate) fn is_less_of_any_than(&self, before: &Self) -> bool {
        self.milli_cpu < before.milli_cpu
            || self.memory < before.memory
            || self.ephemeral_storage < before.ephemeral_storage
            || before.scalars.iter().any(|(name, amount)| self.scalar(name) < *amount)
    }
}

/// True if nodes count a resource that has no field of its own.
fn is_scalar(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(amounts: &[(&str, &str)]) -> ResourceList {
        amounts.iter().map(|(name, amount)| ((*name).into(), amount.parse().unwrap())).collect()
    }

    #[test]
    fn quantities_are_parsed_to_integers() {
        let resources = Resources::of(&list(&[
            ("cpu", "1500m"),
            ("memory", "1Gi"),
            ("pods", "110"),
            ("example.com/gpu", "2"),
            ("hugepages-2Mi", "4Mi"),
            ("storage", "1"),
        ]));
        assert_eq!((resources.milli_cpu, resources.memory, resources.pods), (1500, 1 << 30, 110));
        assert_eq!(resources.scalar("example.com/gpu"), 2);
        assert_eq!(resources.scalars.len(), 2);
    }

    #[test]
    fn missing_requests_get_defaults() {
        let assumed = Resources::assumed_of(&list(&[("cpu", "0")]));
        assert_eq!((assumed.milli_cpu, assumed.memory), (0, ASSUMED_MEMORY));
    }

    #[test]
    fn sums_and_maxima_are_computed_per_resource() {
        let mut sum = Resources::of(&list(&[("cpu", "1"), ("a/b", "1")]));
        let more = Resources::of(&list(&[("cpu", "2"), ("memory", "5"), ("a/c", "3")]));
        sum.add(&more);
        assert_eq!((sum.milli_cpu, sum.memory, sum.scalar("a/b"), sum.scalar("a/c")), (3000, 5, 1, 3));
        assert!(more.is_less_of_any_than(&sum) && !sum.is_less_of_any_than(&more));
        sum.subtract(&more);
        assert_eq!((sum.milli_cpu, sum.scalar("a/c")), (1000, 0));
        sum.raise_to(&more);
        assert_eq!((sum.milli_cpu, sum.scalar("a/b"), sum.scalar("a/c")), (2000, 1, 3));
    }
}
