//! Whether the table is still what it was when the stream opened, and what the facts tell of its DDL.

use std::sync::Arc;

use crate::checkpoint::SourceSeen;
use crate::config::SchemaChangePolicy;
use crate::error::{Classify as _, ErrorKind};
use crate::facts::FactsRow;
use crate::lsn::{Lsn, Offset};
use crate::report::Event;
use crate::source::{Ddl, Piece, Poll, SourceTable, TableLook, look};

use super::StreamError;
use super::open::OpenTable;

/// What a batch tells of its source: events, and what is told after them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Told {
    pub(super) events: Vec<FactsRow>,
    pub(super) seen: SourceSeen,
}

impl OpenTable {
    /// Looks at the table, before anything is planned: all of its DDL history, what is told already included, because a
    /// switch of instances goes back to it.
    ///
    /// # Errors
    /// [`StreamError::TableChanged`] when its instances or columns are others: the stream opens it again. DDL that the policy
    /// refuses.
    pub(super) async fn look(&mut self) -> Result<Vec<Ddl>, StreamError> {
        let TableLook { table, ddl } = self
            .retried(|| async {
                let mut asker = self.shared.asks.get().await?;
                Ok(look(
                    &mut asker,
                    &self.source,
                    self.known_max.unwrap_or(Lsn::ZERO),
                    self.shared.catalog.zone.named(),
                )
                .await?)
            })
            .await?;
        if !table.is_same(&self.source) {
            return Err(StreamError::TableChanged);
        }
        // Where an instance begins is known when capture has reached it.
        let begins = |table: &SourceTable| {
            table
                .instances
                .iter()
                .map(|instance| instance.start_lsn)
                .collect::<Vec<_>>()
        };
        if begins(&table) != begins(&self.source) {
            let mut source = (*self.source).clone();
            for (known, now) in source.instances.iter_mut().zip(&table.instances) {
                known.start_lsn = match (known.start_lsn, now.start_lsn) {
                    (Some(known), Some(now)) => Some(known.min(now)),
                    (known, now) => known.or(now),
                };
            }
            self.source = Arc::new(source);
        }
        let told = self.told_of();
        match ddl.iter().find(|ddl| Some(ddl.lsn) > told) {
            Some(ddl) if self.settings.reading.schema_change_policy == SchemaChangePolicy::Fail && told.is_some() => {
                Err(StreamError::Ddl {
                    lsn: ddl.lsn,
                    statement: ddl.statement.clone(),
                })
            }
            _ => Ok(ddl),
        }
    }

    /// Looks at the table, when the list of instances has others than the stream knows, or knows more of them.
    pub(super) async fn heed_listing(&mut self, poll: &Poll) -> Result<(), StreamError> {
        let mut listed = poll.listed.of(&self.source);
        let known: Vec<_> = self
            .source
            .instances
            .iter()
            .map(|instance| (instance.name.clone(), instance.created, instance.start_lsn.is_some()))
            .collect();
        // Those that the stream has behind it.
        if let Some(at) = listed
            .iter()
            .position(|(name, ..)| Some(name) == known.first().map(|(name, ..)| name))
        {
            listed.drain(..at);
        }
        if listed == known {
            return Ok(());
        }
        self.look().await.map(|_| ())
    }

    /// A failure, told as what it is when the table is another one by now (an instance was disabled, a column converted), or
    /// when CDC was disabled with all of them.
    pub(super) async fn explained(&mut self, error: StreamError) -> StreamError {
        let of_the_table = match &error {
            StreamError::Source(source) => matches!(
                source.kind(),
                ErrorKind::Config | ErrorKind::SchemaChanged | ErrorKind::Internal | ErrorKind::DataLoss
            ),
            _ => false,
        };
        if !of_the_table {
            return error;
        }
        match self.look().await {
            Err(changed @ (StreamError::TableChanged | StreamError::Stopped)) => changed,
            Err(StreamError::Source(off)) if off.is_cdc_off() => off.into(),
            _ => error,
        }
    }

    /// The newest DDL that is told of, or that lies before the stream. `None` at the very beginning.
    fn told_of(&self) -> Option<Lsn> {
        self.seen_source.ddl
    }

    /// What is told of the source, and what is known of it.
    pub(super) fn seen_now(&self) -> SourceSeen {
        SourceSeen {
            begins: self.source.begins(),
            floor: self.floor,
            ..self.seen_source.clone()
        }
    }

    /// Shows a person what the facts are told of the source.
    pub(super) fn warn_of(&self, event: &FactsRow) {
        let told = event.event.as_deref().zip(event.detail.as_deref());
        if let Some((event, detail)) = told {
            self.shared.tell(Event::Warning {
                capture_instance: self.settings.capture_instance.clone(),
                message: format!("{event} {detail}"),
            });
        }
    }

    /// The events of a batch with these parts, which begins at `first` and ends at `end`.
    pub(super) fn tell_source(&self, ddl: &[Ddl], parts: &[Piece], first: Lsn, end: Offset) -> Told {
        let beginning = self.told_of().unwrap_or_else(|| first.previous());
        let told: Vec<&Ddl> = ddl
            .iter()
            .filter(|ddl| ddl.lsn > beginning && ddl.lsn <= end.lsn)
            .collect();
        let row = |event: &str, detail: String| FactsRow {
            app_id: self.settings.app_id.0.clone(),
            event: Some(event.to_owned()),
            end_lsn: Some(end.lsn),
            end_commit_ts: Some(end.commit_ts),
            detail: Some(detail),
            target: Some(self.settings.target.display().to_string()),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        };
        let mut events: Vec<FactsRow> = told
            .iter()
            .map(|ddl| FactsRow {
                min_lsn: Some(ddl.lsn),
                ..row("schema_change", describe(ddl))
            })
            .collect();
        let mut through = self.seen_source.through.clone();
        for part in parts {
            let instance = &self.source.instances[part.instance];
            if let Some(before) = through.as_ref().filter(|before| **before != instance.name) {
                let switch = switch(&self.source, part.instance, ddl);
                events.push(FactsRow {
                    min_lsn: switch.missing.map(|(from, _)| from),
                    max_lsn: switch.missing.map(|(_, to)| to),
                    ..row(
                        "capture_instance_switched",
                        format!(
                            "from {before} to {}, which is read from {} on{}",
                            instance.name,
                            instance.start_lsn.unwrap_or(part.from),
                            switch.detail
                        ),
                    )
                });
            }
            through = Some(instance.name.clone());
        }
        Told {
            events,
            seen: SourceSeen {
                through,
                ddl: told.last().map(|ddl| ddl.lsn).max(Some(beginning)),
                stalled: self.seen_source.stalled,
                floor: None,
                begins: self.source.begins(),
            },
        }
    }
}

/// A switch to an instance.
struct Switch {
    /// What the facts say of it.
    detail: String,
    /// Commits of which nobody captured the new columns: from, to.
    missing: Option<(Lsn, Lsn)>,
}

/// What the instance captures that the one before it does not, and which rows lack it.
fn switch(table: &SourceTable, to: usize, ddl: &[Ddl]) -> Switch {
    let instance = &table.instances[to];
    let Some((before, start)) = to
        .checked_sub(1)
        .map(|before| &table.instances[before])
        .zip(instance.start_lsn)
    else {
        return Switch {
            detail: String::new(),
            missing: None,
        };
    };
    let new: Vec<&str> = instance
        .columns
        .iter()
        .filter(|column| {
            !before
                .columns
                .iter()
                .any(|old| old.id == column.id && old.name == column.name)
        })
        .map(|column| column.name.as_str())
        .collect();
    let gone: Vec<&str> = before
        .columns
        .iter()
        .filter(|column| !instance.captures(&column.name))
        .map(|column| column.name.as_str())
        .collect();
    let mut detail = String::new();
    let mut missing = None;
    if !new.is_empty() {
        // The history has every DDL since the older instance was made.
        let added = ddl
            .iter()
            .filter(|ddl| !ddl.changed_a_type && ddl.lsn < start && adds(&ddl.statement))
            .map(|ddl| ddl.lsn)
            .min();
        let from = added.or(before.start_lsn).unwrap_or(start);
        let to = start.previous();
        if from <= to {
            missing = Some((from, to));
            detail.push_str(&format!(
                "; {} of rows from {from} to {to} was captured by neither, and is NULL in them",
                new.join(", ")
            ));
        }
    }
    if !gone.is_empty() {
        detail.push_str(&format!(
            "; it does not capture {}, which is NULL from there on",
            gone.join(", ")
        ));
    }
    Switch { detail, missing }
}

/// What a DDL statement means for the stream.
fn describe(ddl: &Ddl) -> String {
    let meaning = if ddl.changed_a_type {
        "a captured column has another type, and the change table with it"
    } else if adds(&ddl.statement) {
        "a column that was added is not captured until a second capture instance has it"
    } else if contains_words(&ddl.statement, "DROP COLUMN") {
        "a captured column that was dropped is NULL from there on"
    } else {
        "what is captured stays as it is"
    };
    format!("at {}: {}: {meaning}", ddl.lsn, ddl.statement)
}

fn adds(statement: &str) -> bool {
    contains_words(statement, "ADD") && !contains_words(statement, "ADD CONSTRAINT")
}

/// Whether a statement has these words in a row, outside of quoted names.
fn contains_words(statement: &str, words: &str) -> bool {
    let mut outside = String::with_capacity(statement.len() + 2);
    outside.push(' ');
    let mut close = None;
    for character in statement.chars() {
        match (close, character) {
            (Some(end), character) if character == end => close = None,
            (Some(_), _) => {}
            (None, '[') => close = Some(']'),
            (None, '"') => close = Some('"'),
            (None, '(' | ')' | ',' | ';') => outside.push(' '),
            (None, other) => outside.push(other.to_ascii_uppercase()),
        }
    }
    outside.push(' ');
    let outside = outside.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(" {outside} ").contains(&format!(" {words} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ddl_is_told_by_what_it_means() {
        let means = |statement: &str, changed_a_type: bool| {
            describe(&Ddl {
                lsn: Lsn([1; 10]),
                local_micros: None,
                statement: statement.to_owned(),
                changed_a_type,
            })
        };
        assert!(means("ALTER TABLE t ADD note int", false).contains("second capture instance"));
        assert!(means("alter table t add note int", false).contains("second capture instance"));
        assert!(means("ALTER TABLE [ADD] DROP COLUMN note", false).contains("NULL from there on"));
        assert!(means("ALTER TABLE t ALTER COLUMN a bigint", true).contains("another type"));
        assert!(means("ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)", false).contains("stays as it is"));
    }
}
