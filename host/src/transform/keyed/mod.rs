//! The `keyed` capability: computations with a secret that never enters the component. One file a function; here is what
//! stands before each: is the key granted, is the column one, does the answer fit. Until `apply` is called no key is granted for
//! a row: what a component says in `open` is shown.

mod ff1;
mod hmac;
mod pick;
mod texts;

#[doc(hidden)]
pub use hmac::Tagger;
#[doc(hidden)]
pub use texts::TagText;

use std::sync::Arc;
use std::time::Instant;

use super::bindings::v0_3::sluice::transform::keyed::{Column, DigestText, Ff1Answer, Host, KeyedError};
use super::cells::{Cells, TextColumn};
use super::hostcall::HostCall;
use super::made::OutputSpent;
use super::sandbox::HostState;

/// Bytes of the longest context of `hash-output`.
const MOST_CONTEXT_BYTES: usize = 64 << 10;

impl Host for HostState {
    fn hmac_sha256(
        &mut self,
        key: String,
        context: String,
        rows: u32,
        values: Column,
    ) -> wasmtime::Result<Result<Vec<u8>, KeyedError>> {
        let mut call = HostCall {
            deadline: self.deadline,
            limiter: &mut self.limiter,
        };
        let Some(key) = self.grants.key(&key).filter(|_| !self.opening || rows == 0) else {
            return Ok(Err(KeyedError::NotGranted));
        };
        let Some(cells) = Cells::new(rows, &values) else {
            return Ok(Err(KeyedError::Malformed));
        };
        let started = Instant::now();
        let tags = hmac::tags(&key.secret, &context, &cells, &mut call);
        self.keyed += started.elapsed();
        tags.map(Ok)
    }

    fn hash_output(
        &mut self,
        output: u32,
        key: String,
        context: String,
        text: DigestText,
        rows: u32,
        values: Column,
    ) -> wasmtime::Result<Result<(), KeyedError>> {
        let Some(key) = self.grants.key(&key).filter(|_| !self.opening || rows == 0) else {
            return Ok(Err(KeyedError::NotGranted));
        };
        let Some(text) = TagText::new(text).filter(|_| context.len() <= MOST_CONTEXT_BYTES) else {
            return Ok(Err(KeyedError::Argument));
        };
        let Some(cells) = Cells::new(rows, &values) else {
            return Ok(Err(KeyedError::Malformed));
        };
        // With no rows, in `open` or in an empty batch, there is nothing to make.
        if rows == 0 {
            return Ok(Ok(()));
        }
        if rows != self.made.rows {
            return Ok(Err(KeyedError::Malformed));
        }
        if !self.made.has_place(output) {
            return Ok(Ok(()));
        }
        let bytes = cells.values().saturating_mul(text.bytes());
        if i32::try_from(bytes).is_err() {
            return Err(OutputSpent.into());
        }
        self.made
            .reserve(TextColumn::fixed_bytes(cells.rows).saturating_add(bytes))?;
        let call = HostCall {
            deadline: self.deadline,
            limiter: &mut self.limiter,
        };
        let started = Instant::now();
        let texts = texts::texts(&key.secret, &context, &text, &cells, bytes, &call);
        self.keyed += started.elapsed();
        self.made.put(output, Arc::new(texts?));
        Ok(Ok(()))
    }

    fn ff1_encrypt(
        &mut self,
        key: String,
        tweak: Vec<u8>,
        alphabet: String,
        rows: u32,
        values: Column,
    ) -> wasmtime::Result<Result<Ff1Answer, KeyedError>> {
        let mut call = HostCall {
            deadline: self.deadline,
            limiter: &mut self.limiter,
        };
        let Some(key) = self.grants.key(&key).filter(|_| !self.opening || rows == 0) else {
            return Ok(Err(KeyedError::NotGranted));
        };
        let Some(alphabet) = ff1::Alphabet::new(&alphabet) else {
            return Ok(Err(KeyedError::Argument));
        };
        if tweak.len() > ff1::MAX_TWEAK_BYTES {
            return Ok(Err(KeyedError::Argument));
        }
        let Some(cells) = Cells::new(rows, &values) else {
            return Ok(Err(KeyedError::Malformed));
        };
        let started = Instant::now();
        let cipher = ff1::TextCipher::of_secret(&key.secret, alphabet)?;
        let answer = cipher.encrypt_column(&tweak, &cells, &mut call);
        self.keyed += started.elapsed();
        Ok(answer?.ok_or(KeyedError::Malformed))
    }

    fn pick(
        &mut self,
        key: String,
        context: String,
        count: u32,
        rows: u32,
        values: Column,
    ) -> wasmtime::Result<Result<Vec<u32>, KeyedError>> {
        let mut call = HostCall {
            deadline: self.deadline,
            limiter: &mut self.limiter,
        };
        let Some(key) = self.grants.key(&key).filter(|_| !self.opening || rows == 0) else {
            return Ok(Err(KeyedError::NotGranted));
        };
        if count == 0 {
            return Ok(Err(KeyedError::Argument));
        }
        let Some(cells) = Cells::new(rows, &values) else {
            return Ok(Err(KeyedError::Malformed));
        };
        let started = Instant::now();
        let picks = pick::picks(&key.secret, &context, count, &cells, &mut call);
        self.keyed += started.elapsed();
        picks.map(Ok)
    }
}
