//! The sink: rows in, chunks out, and what it refuses.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, TimestampMicrosecondType};

use super::*;
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;
use crate::shape::{ColumnShape, Recorded, TableShape};

fn shape(columns: &[(&str, DataType)]) -> TableShape {
    TableShape {
        schema: "dbo".to_owned(),
        table: "t".to_owned(),
        capture_instance: CaptureInstance("dbo_t".to_owned()),
        has_command_id: true,
        columns: columns
            .iter()
            .map(|(name, data_type)| ColumnShape {
                name: (*name).to_owned(),
                source_type: data_type.to_string(),
                data_type: data_type.clone(),
                key: None,
                recorded: Recorded::Always,
            })
            .collect(),
    }
}

fn lsn(n: u8) -> Lsn {
    Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
}

fn builder(columns: &[(&str, DataType)], max_rows: usize) -> ChunkBuilder {
    let times = CommitTimes::new(
        (1..=9).map(|n| (lsn(n), i64::from(n) * 1000)).collect(),
        crate::clock::Clock::Fixed(0),
        &crate::clock::Repeated::default(),
        None,
    );
    ChunkBuilder::new(&shape(columns), Arc::new(times), max_rows, usize::MAX).unwrap()
}

fn row(sink: &mut ChunkBuilder, commit: u8, operation: i32, value: Option<i32>) {
    sink.push_bytes(0, &lsn(commit).0);
    sink.push_i32(1, 1);
    sink.push_bytes(2, &lsn(commit).0);
    sink.push_i32(3, operation);
    match value {
        Some(value) => sink.push_i32(4, value),
        None => sink.push_null(4),
    }
    sink.end_row();
}

#[test]
fn rows_become_a_chunk_with_commit_times() {
    let mut sink = builder(&[("v", DataType::Int32)], 100);
    row(&mut sink, 1, 2, Some(7));
    row(&mut sink, 1, 1, None);
    row(&mut sink, 3, 2, Some(9));
    let chunk = sink.take().unwrap().unwrap();
    assert_eq!(chunk.batch.num_rows(), 3);
    assert_eq!((chunk.first_lsn, chunk.last_lsn), (lsn(1), lsn(3)));
    assert_eq!((chunk.inserts, chunk.deletes, chunk.updates), (2, 1, 0));
    let times = chunk.batch.column(5).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.values().as_ref(), [1000, 1000, 3000]);
    let start = arrow::compute::cast(chunk.batch.column(1), &DataType::Utf8).unwrap();
    assert_eq!(start.as_string::<i32>().value(2), "0x00000001000000000003");
    let values = chunk.batch.column(6).as_primitive::<arrow::datatypes::Int32Type>();
    assert_eq!((values.value(0), values.is_null(1), values.value(2)), (7, true, 9));
    assert!(sink.take().unwrap().is_none());
}

#[test]
fn an_update_pair_is_never_cut() {
    let mut sink = builder(&[("v", DataType::Int32)], 1);
    row(&mut sink, 1, 3, Some(1));
    assert!(!sink.is_full());
    row(&mut sink, 1, 4, Some(2));
    assert!(sink.is_full());
    let chunk = sink.take().unwrap().unwrap();
    assert_eq!((chunk.batch.num_rows(), chunk.updates), (2, 1));
}

#[test]
fn a_commit_that_goes_on_in_the_next_chunk_keeps_its_name() {
    let mut sink = builder(&[("v", DataType::Int32)], 1);
    row(&mut sink, 2, 2, Some(1));
    let first = sink.take().unwrap().unwrap();
    row(&mut sink, 2, 2, Some(2));
    let second = sink.take().unwrap().unwrap();
    assert_eq!(first.batch.column(1), second.batch.column(1));
    assert_eq!(second.first_lsn, lsn(2));
}

#[test]
fn a_missing_command_id_is_null() {
    let mut sink = builder(&[("v", DataType::Int32)], 100);
    row(&mut sink, 1, 2, Some(7));
    sink.push_bytes(0, &lsn(1).0);
    sink.push_null(1);
    sink.push_bytes(2, &lsn(1).0);
    sink.push_i32(3, 2);
    sink.push_i32(4, 8);
    sink.end_row();
    let chunk = sink.take().unwrap().unwrap();
    assert!(chunk.batch.column(4).is_valid(0) && chunk.batch.column(4).is_null(1));
}

#[test]
fn faults_name_the_column_and_are_kept() {
    let mut sink = builder(&[("v", DataType::Int32)], 100);
    row(&mut sink, 1, 2, Some(7));
    sink.push_i64(4, 1);
    assert!(sink.is_full());
    let error = sink.take().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("column v of row 2 of dbo_t (commit 0x00000001000000000001) arrives as bigint"),
        "{text}"
    );

    let mut sink = builder(&[("v", DataType::Int32)], 100);
    row(&mut sink, 77, 2, Some(7));
    let text = sink.take().unwrap_err().to_string();
    assert!(
        text.starts_with("commit 0x0000000100000000004D of dbo_t has no row"),
        "{text}"
    );

    // Rows are counted across chunks, and one without an LSN does not get the last one's.
    let mut sink = builder(&[("v", DataType::Int32)], 1);
    row(&mut sink, 1, 2, Some(7));
    sink.take().unwrap();
    sink.push_null(0);
    let text = sink.take().unwrap_err().to_string();
    assert!(text.starts_with("row 2 of dbo_t has an invalid __$start_lsn"), "{text}");
}

#[test]
fn decimals_keep_38_digits_and_refuse_another_scale() {
    let most = 10i128.pow(38) - 1;
    let mut sink = builder(&[("d", DataType::Decimal128(38, 10))], 100);
    for value in [most, -most] {
        sink.push_bytes(0, &lsn(1).0);
        sink.push_i32(1, 1);
        sink.push_bytes(2, &lsn(1).0);
        sink.push_i32(3, 2);
        sink.push_decimal(4, value, 10);
        sink.end_row();
    }
    let chunk = sink.take().unwrap().unwrap();
    let values = chunk.batch.column(6).as_primitive::<Decimal128Type>();
    assert_eq!(values.values().as_ref(), [most, -most]);
    sink.push_decimal(4, 1, 9);
    assert!(matches!(sink.take(), Err(BatchError::TypeChanged { .. })));
}

#[test]
fn a_decimal_that_was_widened_on_the_source_is_refused_and_never_cut() {
    // decimal(9,2), smallmoney and a wide one: the first value that no longer fits.
    for (precision, scale) in [(9u8, 2u8), (10, 4), (18, 0), (28, 9)] {
        let data_type = DataType::Decimal128(precision, scale as i8);
        let limit = 10i128.pow(u32::from(precision));
        for sign in [1, -1] {
            let mut sink = builder(&[("price", data_type.clone())], 100);
            for (value, fits) in [(limit - 1, true), (limit + 234_567, false)] {
                sink.push_bytes(0, &lsn(1).0);
                sink.push_i32(1, 1);
                sink.push_bytes(2, &lsn(1).0);
                sink.push_i32(3, 2);
                sink.push_decimal(4, sign * value, scale);
                sink.end_row();
                match sink.take() {
                    Ok(Some(chunk)) if fits => {
                        let values = chunk.batch.column(6).as_primitive::<Decimal128Type>();
                        assert_eq!(values.value(0), sign * value);
                    }
                    Err(error @ BatchError::TypeChanged { .. }) if !fits => {
                        let text = error.to_string();
                        assert!(text.starts_with("column price of row 2 of dbo_t"), "{text}");
                        assert!(!text.contains(&value.to_string()), "{text}");
                    }
                    other => panic!("{data_type} {value}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn what_was_not_recorded_is_told_apart_from_null() {
    let mut shape = shape(&[("note", DataType::Utf8), ("doc", DataType::Utf8)]);
    shape.columns[0].recorded = Recorded::After;
    shape.columns[1].recorded = Recorded::Changed { ordinal: 2 };
    let times = CommitTimes::new(
        vec![(lsn(1), 0)],
        crate::clock::Clock::Fixed(0),
        &crate::clock::Repeated::default(),
        None,
    );
    let mut sink = ChunkBuilder::new(&shape, Arc::new(times), 100, usize::MAX).unwrap();
    let mut row = |operation: i32, note: Option<&str>, doc: Option<&str>, mask: Option<&[u8]>| {
        sink.push_bytes(0, &lsn(1).0);
        sink.push_i32(1, 1);
        sink.push_bytes(2, &lsn(1).0);
        sink.push_i32(3, operation);
        for (column, value) in [(4, note), (5, doc)] {
            match value {
                Some(value) => sink.push_text(column, value.as_bytes(), TextEncoding::Utf8),
                None => sink.push_null(column),
            }
        }
        match mask {
            Some(mask) => sink.push_bytes(6, mask),
            None => sink.push_null(6),
        }
        sink.end_row();
    };
    // An insert of NULLs, an update of another column, one that changed both, and a delete.
    row(2, None, None, Some(&[0b11]));
    row(3, None, None, Some(&[0b01]));
    row(4, Some("n"), None, Some(&[0b01]));
    row(3, None, None, Some(&[0b11]));
    row(4, None, Some("d"), Some(&[0b11]));
    row(1, None, None, Some(&[0b11]));
    let chunk = sink.take().unwrap().unwrap();
    let rows: Vec<(usize, Vec<usize>)> = chunk
        .omitted
        .iter()
        .map(|(column, rows)| (*column, rows.set_indices().collect()))
        .collect();
    assert_eq!(rows, [(0, vec![1, 3, 5]), (1, vec![1])]);
    assert_eq!(chunk.batch.num_columns(), 8, "the mask is no column of the chunk");
}

#[test]
fn a_row_whose_mask_is_missing_is_refused_where_it_counts() {
    let mut shape = shape(&[("doc", DataType::Utf8)]);
    shape.columns[0].recorded = Recorded::Changed { ordinal: 1 };
    for (operation, refused) in [(2, false), (3, true)] {
        let times = CommitTimes::new(
            vec![(lsn(1), 0)],
            crate::clock::Clock::Fixed(0),
            &crate::clock::Repeated::default(),
            None,
        );
        let mut sink = ChunkBuilder::new(&shape, Arc::new(times), 100, usize::MAX).unwrap();
        sink.push_bytes(0, &lsn(1).0);
        sink.push_i32(1, 1);
        sink.push_bytes(2, &lsn(1).0);
        sink.push_i32(3, operation);
        sink.push_null(4);
        sink.push_null(5);
        sink.end_row();
        match sink.take() {
            Ok(_) => assert!(!refused),
            Err(error) => assert!(refused && error.to_string().contains(UPDATE_MASK), "{error}"),
        }
    }
}
