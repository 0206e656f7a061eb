//! `concat`: columns and fixed texts, one after the other.

use std::borrow::Cow;

use sluice_plugin::{ApplyError, Batch, Column, DataType, Utf8Builder, Utf8View};

use crate::cast::Cast;
use crate::coalesce::MOST_RESERVED;
use crate::recipe::Nulls;
use crate::rejects::{Rejects, malformed};

#[derive(Debug)]
pub(crate) struct Concat {
    pub parts: Vec<Part>,
    pub separator: String,
    pub nulls: Nulls,
}

#[derive(Debug)]
pub(crate) enum Part {
    Text(String),
    Column {
        /// Its position in the plan's reads.
        read: usize,
        name: String,
        data_type: DataType,
    },
}

enum Piece<'a> {
    Text(&'a str),
    Column(Utf8View<'a>),
}

impl Piece<'_> {
    #[inline]
    fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Column(view) => view.get(row),
        }
    }
}

impl Concat {
    /// A value that cannot be written as text rejects its row.
    pub(crate) fn apply(&self, batch: &Batch, rejects: &mut Rejects<'_>) -> Result<Column, ApplyError> {
        let rows = batch.rows as usize;
        let texts = self
            .parts
            .iter()
            .map(|part| part.text(batch, rejects))
            .collect::<Result<Vec<_>, _>>()?;
        let pieces = self
            .parts
            .iter()
            .zip(&texts)
            .map(|(part, column)| match part {
                Part::Text(text) => Some(Piece::Text(text)),
                Part::Column { .. } => Utf8View::new(column.as_deref()?, rows).map(Piece::Column),
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(malformed)?;
        let mut to = Utf8Builder::with_capacity(rows, self.bytes(rows, &texts));
        for row in 0..rows {
            if self.nulls == Nulls::Null && pieces.iter().any(|piece| piece.get(row).is_none()) {
                to.push_null();
                continue;
            }
            let mut follows = false;
            for piece in &pieces {
                let text = match (piece.get(row), self.nulls) {
                    (Some(text), _) => text,
                    (None, Nulls::Skip) => continue,
                    (None, Nulls::Empty | Nulls::Null) => "",
                };
                if follows {
                    to.append(&self.separator);
                }
                to.append(text);
                follows = true;
            }
            to.end_row();
        }
        to.finish()
    }

    /// About how many bytes the result has.
    fn bytes(&self, rows: usize, texts: &[Option<Cow<'_, Column>>]) -> usize {
        let of_columns = texts.iter().flatten().map(|column| column.values.len());
        let fixed = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.len() + self.separator.len(),
            Part::Column { .. } => self.separator.len(),
        });
        let fixed = fixed.fold(0, usize::saturating_add).saturating_mul(rows);
        of_columns.fold(fixed.min(MOST_RESERVED), usize::saturating_add)
    }
}

impl Part {
    /// The column as text; `None` for a fixed text.
    fn text<'a>(&self, batch: &'a Batch, rejects: &mut Rejects<'_>) -> Result<Option<Cow<'a, Column>>, ApplyError> {
        let Self::Column { read, name, data_type } = self else {
            return Ok(None);
        };
        let column = batch.columns.get(*read).ok_or_else(malformed)?;
        if *data_type == DataType::Utf8 {
            return Ok(Some(Cow::Borrowed(column)));
        }
        let cast = Cast {
            from: *data_type,
            to: DataType::Utf8,
        };
        let text = cast.apply(column, batch.rows as usize, &mut rejects.of(name))?;
        Ok(Some(Cow::Owned(text)))
    }
}
