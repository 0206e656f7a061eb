//! The connections that stream rows.

use std::time::Duration;

use mssql_tds::connection::tds_client::TdsClient;

use super::connect;
use super::error::SourceError;
use super::pool::{Place, Pool};
use crate::config::SourceSettings;

/// At most so many connections at a time, kept for the next stream when one ended cleanly. One that was cancelled, or
/// failed, is closed and never used again.
#[derive(Clone)]
pub struct StreamPool {
    settings: SourceSettings,
    pool: Pool<TdsClient>,
}

/// A connection out of the pool.
pub(super) struct Pooled {
    client: Option<TdsClient>,
    place: Place<TdsClient>,
}

impl StreamPool {
    /// A pool of at most `connections`.
    pub fn new(settings: SourceSettings, connections: usize) -> StreamPool {
        StreamPool {
            settings,
            pool: Pool::new(connections),
        }
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
        self.get().await?.give_back();
        Ok(())
    }

    /// Waits for a place, then takes an idle connection or makes one.
    pub(super) async fn get(&self) -> Result<Pooled, SourceError> {
        let (place, idle) = self.pool.place().await?;
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
