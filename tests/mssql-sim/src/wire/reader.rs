//! A cursor over a received message that never reads past its end.

/// A message that ends early or says something impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed TDS message: {0}")]
pub(crate) struct Malformed(pub(crate) String);

/// Shorthand for what parsing returns.
pub(crate) type Parsed<T> = Result<T, Malformed>;

/// Makes a [`Malformed`] from a sentence.
pub(crate) fn malformed<T>(what: impl Into<String>) -> Parsed<T> {
    Err(Malformed(what.into()))
}

/// Reads little-endian fields in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Parsed<&'a [u8]> {
        let Some((head, tail)) = self.rest.split_at_checked(count) else {
            return malformed(format!("{count} bytes expected, {} left", self.rest.len()));
        };
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Parsed<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Parsed<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Parsed<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Parsed<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Text with its length in UTF-16 units in one byte.
    pub(crate) fn b_varchar(&mut self) -> Parsed<String> {
        let units = usize::from(self.u8()?);
        Ok(utf16(self.bytes(units * 2)?))
    }
}

/// Decodes UTF-16LE; half of a pair stays what it is.
pub(crate) fn utf16(bytes: &[u8]) -> String {
    mssql_sim_engine::decode_utf16(bytes)
}
