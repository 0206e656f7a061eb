//! Questions with small answers, over tiberius. One connection that is made when it is needed, and dropped after any
//! failure: a cancelled or half-read connection is never used again.

use std::ops::{Deref, DerefMut};

use tiberius::{Query, Row, ToSql};

use super::connect::{self, TiberiusClient};
use super::error::SourceError;
use super::pool::{Place, Pool};
use crate::config::SourceSettings;
use crate::lsn::Lsn;
use crate::scheduler::{Share, Turns};

/// Asks the source.
pub struct Asker {
    settings: SourceSettings,
    client: Option<TiberiusClient>,
}

impl Asker {
    /// Connects at the first question.
    pub fn new(settings: SourceSettings) -> Asker {
        Asker { settings, client: None }
    }

    /// How the source is reached.
    pub fn settings(&self) -> &SourceSettings {
        &self.settings
    }

    /// Who asks, as a user of the database: whom grants are for.
    pub fn user(&self) -> String {
        self.settings.database_user()
    }

    /// Logs in now, so that a problem shows.
    pub async fn connect(&mut self) -> Result<(), SourceError> {
        if self.client.is_none() {
            self.client = Some(connect::tiberius(&self.settings).await?);
        }
        Ok(())
    }

    /// The rows of a statement without parameters: every result set of a batch.
    pub(super) async fn batch(&mut self, sql: &str, doing: &str) -> Result<Vec<Vec<Row>>, SourceError> {
        self.run(doing, async |client| {
            client.simple_query(sql).await?.into_results().await
        })
        .await
    }

    /// The rows of a statement with bound parameters `@P1`, `@P2`, ….
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[&dyn ToSql],
        doing: &str,
    ) -> Result<Vec<Row>, SourceError> {
        self.run(doing, async |client| {
            client.query(sql, parameters).await?.into_first_result().await
        })
        .await
    }

    /// Like [`Asker::query`], for parameters that must be owned.
    pub(super) async fn bound(&mut self, query: Query<'_>, doing: &str) -> Result<Vec<Row>, SourceError> {
        self.run(doing, async |client| {
            query.query(client).await?.into_first_result().await
        })
        .await
    }

    /// Every result set of a statement with bound parameters.
    pub(super) async fn bound_sets(&mut self, query: Query<'_>, doing: &str) -> Result<Vec<Vec<Row>>, SourceError> {
        self.run(doing, async |client| query.query(client).await?.into_results().await)
            .await
    }

    async fn run<T>(
        &mut self,
        doing: &str,
        ask: impl AsyncFnOnce(&mut TiberiusClient) -> tiberius::Result<T>,
    ) -> Result<T, SourceError> {
        self.connect().await?;
        let Some(mut client) = self.client.take() else {
            return Err(SourceError::Broken {
                doing: doing.to_owned(),
                reason: "no connection".to_owned(),
            });
        };
        match tokio::time::timeout(self.settings.command_timeout, ask(&mut client)).await {
            Ok(Ok(answer)) => {
                self.client = Some(client);
                Ok(answer)
            }
            Ok(Err(error)) => Err(SourceError::ask(error, doing)),
            Err(_) => Err(SourceError::Timeout {
                doing: doing.to_owned(),
                seconds: self.settings.command_timeout.as_secs(),
            }),
        }
    }
}

/// A `binary(10)` column.
pub(super) fn lsn(row: &Row, column: usize, doing: &str) -> Result<Option<Lsn>, SourceError> {
    let bytes: Option<&[u8]> = row.try_get(column).map_err(|error| unexpected(error, doing))?;
    match bytes {
        None => Ok(None),
        Some(bytes) => Lsn::from_bytes(bytes).map(Some).ok_or_else(|| SourceError::Unexpected {
            doing: doing.to_owned(),
            reason: format!("an LSN of {} bytes", bytes.len()),
        }),
    }
}

/// A `datetime` column: microseconds since 1970 on the server's clock. SQL Server counts 1/300 s and shows the nearest
/// millisecond; so do we.
pub(super) fn local_micros(row: &Row, column: usize, doing: &str) -> Result<Option<i64>, SourceError> {
    let time: Option<chrono::NaiveDateTime> = row.try_get(column).map_err(|e| unexpected(e, doing))?;
    Ok(time.map(|time| (time.and_utc().timestamp_micros() + 500).div_euclid(1000) * 1000))
}

/// An error of reading a row's column.
pub(super) fn unexpected(error: tiberius::error::Error, doing: &str) -> SourceError {
    SourceError::Unexpected {
        doing: doing.to_owned(),
        reason: error.to_string(),
    }
}

/// A few askers for all tables.
#[derive(Clone)]
pub struct AskPool {
    settings: SourceSettings,
    pool: Pool<TiberiusClient>,
}

/// An asker out of the pool. Its connection goes back when it is dropped, if the last question was answered to its end.
pub struct PooledAsker {
    asker: Asker,
    place: Place<TiberiusClient>,
}

impl AskPool {
    /// A pool of at most `size` connections.
    pub fn new(settings: SourceSettings, size: usize) -> AskPool {
        AskPool {
            settings,
            pool: Pool::new(Turns::new(size as u64)),
        }
    }

    /// Waits for a place.
    pub async fn get(&self) -> Result<PooledAsker, SourceError> {
        // Questions are short, so who came first is first.
        let (place, client) = self.pool.place(Share::of(0), false).await;
        let settings = self.settings.clone();
        Ok(PooledAsker {
            asker: Asker { settings, client },
            place,
        })
    }
}

impl Deref for PooledAsker {
    type Target = Asker;

    fn deref(&self) -> &Asker {
        &self.asker
    }
}

impl DerefMut for PooledAsker {
    fn deref_mut(&mut self) -> &mut Asker {
        &mut self.asker
    }
}

impl Drop for PooledAsker {
    fn drop(&mut self) {
        if let Some(client) = self.asker.client.take() {
            self.place.keep(client);
        }
    }
}
