//! The arguments of the cycles.

/// Cycles without `--cycles`: about twenty seconds for all subjects, not optimized.
const DEFAULT_CYCLES: usize = 50;

/// The name of this program where `cargo test` selects by name.
const NAME: &str = "cycles";

pub(crate) struct Options {
    pub(crate) cycles: usize,
    /// The only subject to run.
    pub(crate) subject: Option<String>,
}

impl Options {
    /// None if the arguments select another test. Flags of the standard harness are ignored, because `cargo test` passes
    /// them to all test programs.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self { cycles: DEFAULT_CYCLES, subject: None };
        let (mut arguments, mut is_selected) = (arguments, true);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--cycles" => {
                    let text = value()?;
                    options.cycles =
                        text.parse().map_err(|_| format!("--cycles needs a number, not {text:?}"))?;
                }
                "--subject" => options.subject = Some(value()?),
                "--list" | "--ignored" => is_selected = false,
                "--skip" => is_selected &= !NAME.contains(&value()?),
                other if other.starts_with('-') => {}
                name => is_selected &= NAME.contains(name),
            }
        }
        Ok(is_selected.then_some(options))
    }
}
