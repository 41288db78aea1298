//! Objects as one watch reports them, across all connections over which it was resumed.

use super::{Event, EventType, Objects, Observation, Revision, Rule, Violation};

/// State after the initial list and the events of a watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchView {
    name: String,
    /// The revision from which the watch is resumed.
    pub(crate) revision: Revision,
    objects: Objects,
}

impl WatchView {
    pub(crate) fn new(name: impl Into<String>, revision: Revision, objects: Objects) -> Self {
        Self { name: name.into(), revision, objects }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Applies the next observation of the watch.
    pub(crate) fn observe(&mut self, observation: &Observation) -> Result<(), Violation> {
        match observation {
            Observation::Event(event) => {
                self.advance(event.version.revision, event)?;
                self.change(event)
            }
            Observation::Foreign(revision) => self.advance(*revision, format!("revision {revision}")),
            // A bookmark may repeat the revision of the last event.
            Observation::Bookmark(revision) if *revision == self.revision => Ok(()),
            Observation::Bookmark(revision) => self.advance(*revision, format!("a bookmark at {revision}")),
            Observation::Relist { revision, objects } => {
                self.advance(*revision, format!("a list at {revision}"))?;
                self.objects = objects.clone();
                Ok(())
            }
        }
    }

    fn advance(&mut self, revision: Revision, found: impl ToString) -> Result<(), Violation> {
        if revision <= self.revision {
            let expected = format!("a revision after {}", self.revision);
            return Err(Violation::new(Rule::EventOrder, &self.name, expected, found.to_string()));
        }
        self.revision = revision;
        Ok(())
    }

    fn change(&mut self, event: &Event) -> Result<(), Violation> {
        let Event { event_type, object, version } = event;
        let before = match event_type {
            EventType::Added | EventType::Modified => self.objects.insert(object.clone(), version.clone()),
            EventType::Deleted => self.objects.remove(object),
        };
        let expected = match (event_type, &before) {
            (EventType::Added, None) | (EventType::Modified, Some(_)) => return Ok(()),
            (EventType::Deleted, Some(before)) if before.content == version.content => return Ok(()),
            (_, None) => format!("Added, for {object} was absent"),
            (EventType::Added, Some(before)) => format!("Modified or Deleted, for {object} had {before}"),
            (_, Some(before)) => format!("the last content of {object}, {before}"),
        };
        Err(Violation::new(Rule::EventGap, &self.name, expected, event))
    }
}
