//! The connections that stream rows.

use std::time::Duration;

use mssql_tds::connection::tds_client::TdsClient;

use super::connect;
use super::error::SourceError;
use super::pool::{Place, Pool};
use crate::config::SourceSettings;
use crate::scheduler::{Scheduler, Share, Turn};

/// At most so many connections at a time, kept for the next stream when one ended cleanly. One that was cancelled, or
/// failed, is closed and never used again.
#[derive(Clone)]
pub struct StreamPool {
    settings: SourceSettings,
    scheduler: Scheduler,
    share: Share,
    pool: Pool<TdsClient>,
}

/// A connection out of the pool.
pub(super) struct Pooled {
    client: Option<TdsClient>,
    place: Place<TdsClient>,
}

impl StreamPool {
    /// A pool of as many connections as the scheduler has.
    pub fn new(settings: SourceSettings, scheduler: &Scheduler) -> StreamPool {
        StreamPool {
            settings,
            scheduler: scheduler.clone(),
            share: Share::of(0),
            pool: Pool::new(scheduler.connections.clone()),
        }
    }

    /// The same pool, for the reads of one stream.
    pub fn of(&self, share: Share) -> StreamPool {
        StreamPool { share, ..self.clone() }
    }

    /// Waits for memory for a chunk.
    pub(super) async fn memory(&self, bytes: u64) -> Turn {
        self.scheduler.memory.take(self.share, bytes).await
    }

    /// Who reads, as a user of the database: whom grants are for.
    pub(super) fn user(&self) -> String {
        self.settings.database_user()
    }

    /// How long a stream may be silent.
    pub(super) fn silence(&self) -> Duration {
        self.settings.command_timeout
    }

    /// Logs in once and keeps the connection, so that a problem with this driver's login shows before anything starts.
    pub async fn warm_up(&self) -> Result<(), SourceError> {
        self.get(false).await?.give_back();
        Ok(())
    }

    /// Waits for a place, then takes an idle connection or makes one. `long`: a read of many chunks.
    pub(super) async fn get(&self, long: bool) -> Result<Pooled, SourceError> {
        let (place, idle) = self.pool.place(self.share, long).await;
        let client = match idle {
            Some(client) if !client.is_connection_dead() => client,
            _ => connect::mssql_tds(&self.settings).await?,
        };
        Ok(Pooled {
            client: Some(client),
            place,
        })
    }
}

impl Pooled {
    pub(super) fn client(&mut self) -> Result<&mut TdsClient, SourceError> {
        self.client.as_mut().ok_or_else(|| SourceError::Broken {
            doing: "using a connection".to_owned(),
            reason: "it was given back".to_owned(),
        })
    }

    /// The stream ended cleanly: the connection may serve again. Dropped without this, it is closed.
    pub(super) fn give_back(mut self) {
        if let Some(client) = self.client.take()
            && !client.is_connection_dead()
            && !client.has_open_batch()
        {
            self.place.keep(client);
        }
    }
}
