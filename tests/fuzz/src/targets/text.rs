//! Text decoding: any bytes under any collation become valid text, and ASCII stays what it is.

use std::borrow::Cow;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use mssql_tds::datatypes::row_writer::RowWriter;
use mssql_tds::datatypes::sql_string::EncodingType;
use mssql_tds::token::tokens::SqlCollation;
use sluice::shape::Recorded;

use super::sink::{self, META};

/// Five bytes of a collation, a byte that chooses the kind of encoding, and the text.
pub fn run(data: &[u8]) {
    let Some((head, bytes)) = data.split_at_checked(6) else {
        return;
    };
    let Ok(collation) = SqlCollation::try_from(&head[..5]) else {
        return;
    };
    let encoding = match head[5] % 4 {
        0 => EncodingType::Utf16,
        1 => EncodingType::Utf8,
        _ => EncodingType::LcidBased(collation),
    };
    let Some(mut sink) = sink::of(&[("v", DataType::Utf8, Recorded::Always)]) else {
        return;
    };
    sink::lead(&mut sink, 2);
    sink.write_string(META, Cow::Borrowed(bytes), encoding);
    sink.end_row();
    let Ok(Some(chunk)) = sink.chunk.take() else {
        return;
    };
    let texts = chunk.batch.column(6).as_string::<i32>();
    assert_eq!(texts.len(), 1);
    let text = texts.value(0);
    let replaced = chunk.replaced[0] > 0;
    if bytes.is_ascii() && !matches!(encoding, EncodingType::Utf16) {
        assert!(text.as_bytes() == bytes && !replaced, "ASCII is the same everywhere");
    }
    assert!(
        !replaced || text.contains('\u{FFFD}'),
        "what is replaced is there to see"
    );
}
