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
    /// What those who handed entries in are told.
    type Answer: Clone + Default + Send + Sync + 'static;

    /// Commits all of them, or answers with an error and none of them is known to be committed. Entries that were
    /// committed before are to be left out, because a caller may hand an entry in again after an error.
    fn commit(&mut self, entries: Vec<E>) -> impl Future<Output = Result<Self::Answer, LakeError>> + Send;
}

/// A handle to the task. Clones share it; it ends, after a last commit, when all are gone.
pub struct Group<E, A = ()> {
    name: Arc<str>,
    queue: mpsc::Sender<Message<E, A>>,
}

impl<E, A> Clone for Group<E, A> {
    fn clone(&self) -> Group<E, A> {
        Group {
            name: self.name.clone(),
            queue: self.queue.clone(),
        }
    }
}

enum Message<E, A> {
    Entries(Vec<E>, Reply<A>),
    Flush(Reply<A>),
}

type Reply<A> = oneshot::Sender<Result<A, Arc<LakeError>>>;

impl<E: Send + 'static, A: Clone + Default + Send + Sync + 'static> Group<E, A> {
    /// Starts the task. It commits `window` after the first entry of a group, or when it is told to flush.
    pub fn spawn(name: &str, window: Duration, sink: impl Sink<E, Answer = A>) -> Group<E, A> {
        let (queue, messages) = mpsc::channel(QUEUE);
        tokio::spawn(run(messages, window, sink));
        Group {
            name: name.into(),
            queue,
        }
    }

    /// Hands entries in and waits until they are committed. They are never split between two commits.
    pub async fn append(&self, entries: Vec<E>) -> Result<A, LakeError> {
        self.send(|reply| Message::Entries(entries, reply)).await
    }

    /// Has everything that was handed in so far committed at once, and waits for it.
    pub async fn flush(&self) -> Result<(), LakeError> {
        self.send(Message::Flush).await.map(|_| ())
    }

    async fn send(&self, message: impl FnOnce(Reply<A>) -> Message<E, A>) -> Result<A, LakeError> {
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

async fn run<E: Send + 'static, S: Sink<E>>(
    mut messages: mpsc::Receiver<Message<E, S::Answer>>,
    window: Duration,
    mut sink: S,
) {
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
            true => Ok(S::Answer::default()),
            false => sink.commit(entries).await.map_err(Arc::new),
        };
        for reply in replies {
            // Somebody who no longer waits does not need the answer.
            let _ = reply.send(outcome.clone());
        }
    }
}

/// Whether the message asks for an immediate commit.
fn take<E, A>(message: Message<E, A>, entries: &mut Vec<E>, replies: &mut Vec<Reply<A>>) -> bool {
    match message {
        Message::Entries(more, reply) => {
            entries.extend(more);
            replies.push(reply);
            false
        }
        Message::Flush(reply) => {
            replies.push(reply);
            true
        }
    }
}
