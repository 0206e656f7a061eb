//! `sluice plugin inspect`.

use clap::Args;

use super::{Lookup, size};
use crate::cli::Failure;
use crate::cli::out::say;
use crate::error::ErrorKind;
use crate::kit::{Component, Inspection, inspect};

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// A project's folder, a component's file, or the name of a built-in component or of one in the plugin folder.
    #[arg(value_name = "DIR|FILE|NAME", default_value = ".")]
    component: String,
    #[command(flatten)]
    lookup: Lookup,
    /// Print one JSON object (docs/reference/plugin-kit.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: InspectArgs) -> Result<(), Failure> {
    let component = Component::find(&args.component, &args.lookup.plugins)?;
    let found = inspect(component)?;
    if args.json {
        let mut object = serde_json::to_value(&found).unwrap_or_default();
        if let Some(object) = object.as_object_mut() {
            object.insert("type".to_owned(), "plugin".into());
        }
        say!("{object}");
    } else {
        print(&found);
    }
    match &found.refused {
        None => Ok(()),
        Some(reason) => Err(Failure {
            kind: found.refused_kind.unwrap_or(ErrorKind::ComponentRefused),
            message: format!("refused: {reason}"),
            shown: args.json,
        }),
    }
}

fn print(found: &Inspection) {
    let version = found.version.as_deref().unwrap_or("unversioned");
    let built_as = match &found.built_as {
        Some(name) if *name != found.name => format!(", built as {name}"),
        _ => String::new(),
    };
    say!("{} {version}{built_as}", found.name);
    say!("  file      {}, {}", found.file, size(found.bytes));
    say!("  sha256    {}", found.sha256);
    let wit = found.wit.as_deref().unwrap_or("none that this sluice knows");
    say!("  kind      {}, contract {wit}", found.kind);
    for (what, names) in [("imports", &found.imports), ("exports", &found.exports)] {
        match names.is_empty() {
            true => say!("  {what}   nothing"),
            false => say!("  {what}   {}", names.join(", ")),
        }
    }
    if found.grants.is_empty() {
        say!("  granted   nothing: it computes on the columns that it reads");
    }
    for grant in &found.grants {
        say!("  granted   {}: {}", grant.capability, grant.terms);
    }
}
