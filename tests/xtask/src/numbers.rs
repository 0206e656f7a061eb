//! Arguments that are numbers: `--minutes 2 --seed 7`.

use anyhow::{Context, Result, bail};

/// The names, each with its number. `usage` is told with a mistake.
pub(crate) fn numbers<'a>(arguments: &'a [String], usage: &str) -> Result<Vec<(&'a str, u64)>> {
    let pairs = arguments.chunks(2).map(|pair| {
        let [name, text] = pair else {
            bail!("{} needs a number: {usage}", pair[0])
        };
        let number = text
            .parse()
            .with_context(|| format!("{name} {text} is no number: {usage}"))?;
        Ok((name.as_str(), number))
    });
    pairs.collect()
}
