//! Group commit: many streams hand in entries, and one task commits those that came within a short time together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::LakeError;

/// Entries that may wait for the task before those who hand in more are held back.
const QUEUE: usize = 4096;

/// Commits entries that are handed in together.
pub trait Sink<E>: Send + 'static {
    /// Commits all of them, or answers with an error and none of them is known to be committed. Entries that were
    /// committed before are to be left out, because a caller may hand an entry in again after an error.
    fn commit(&mut self, entries: Vec<E>) -> impl Future<Output = Result<(), LakeError>> + Send;
}

/// A handle to the task. Clones share it; it ends, after a last commit, when all are gone.
pub struct Group<E> {
    name: Arc<str>,
    queue: mpsc::Sender<Message<E>>,
}

impl<E> Clone for Group<E> {
    fn clone(&self) -> Group<E> {
        Group {
            name: self.name.clone(),
            queue: self.queue.clone(),
        }
    }
}

enum Message<E> {
    Entry(E, Reply),
    Flush(Reply),
}

type Reply = oneshot::Sender<Result<(), Arc<LakeError>>>;

impl<E: Send + 'static> Group<E> {
    /// Starts the task. It commits `window` after the first entry of a group, or when it is told to flush.
    pub fn spawn(name: &str, window: Duration, sink: impl Sink<E>) -> Group<E> {
        let (queue, messages) = mpsc::channel(QUEUE);
        tokio::spawn(run(messages, window, sink));
        Group {
            name: name.into(),
            queue,
        }
    }

    /// Hands an entry in and waits until it is committed.
    pub async fn append(&self, entry: E) -> Result<(), LakeError> {
        self.send(|reply| Message::Entry(entry, reply)).await
    }

    /// Has everything that was handed in so far committed at once, and waits for it.
    pub async fn flush(&self) -> Result<(), LakeError> {
        self.send(Message::Flush).await
    }

    async fn send(&self, message: impl FnOnce(Reply) -> Message<E>) -> Result<(), LakeError> {
        let stopped = |reason: &str| LakeError::WriterStopped {
            table: self.name.to_string(),
            reason: reason.to_owned(),
        };
        let (reply, answer) = oneshot::channel();
        let sent = self.queue.send(message(reply)).await;
        sent.map_err(|_| stopped("its task has ended"))?;
        let answer = answer.await.map_err(|_| stopped("its task ended during the commit"))?;
        answer.map_err(LakeError::Shared)
    }
}

async fn run<E: Send + 'static>(mut messages: mpsc::Receiver<Message<E>>, window: Duration, mut sink: impl Sink<E>) {
    while let Some(first) = messages.recv().await {
        let mut entries = Vec::new();
        let mut replies = Vec::new();
        let mut flush = take(first, &mut entries, &mut replies);
        let deadline = Instant::now() + window;
        while !flush {
            match tokio::time::timeout_at(deadline, messages.recv()).await {
                Ok(Some(message)) => flush = take(message, &mut entries, &mut replies),
                Ok(None) | Err(_) => break,
            }
        }
        // What came while the last group was being committed goes along, flush or not.
        while let Ok(message) = messages.try_recv() {
            take(message, &mut entries, &mut replies);
        }
        let outcome = match entries.is_empty() {
            true => Ok(()),
            false => sink.commit(entries).await.map_err(Arc::new),
        };
        for reply in replies {
            // Somebody who no longer waits does not need the answer.
            let _ = reply.send(outcome.clone());
        }
    }
}

/// Whether the message asks for an immediate commit.
fn take<E>(message: Message<E>, entries: &mut Vec<E>, replies: &mut Vec<Reply>) -> bool {
    match message {
        Message::Entry(entry, reply) => {
            entries.push(entry);
            replies.push(reply);
            false
        }
        Message::Flush(reply) => {
            replies.push(reply);
            true
        }
    }
}
