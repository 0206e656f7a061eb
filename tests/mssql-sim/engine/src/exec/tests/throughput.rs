//! How fast rows go in and out. Run it optimised:
//! `cargo test --release -p mssql-sim-engine -- --ignored --nocapture throughput`

use std::{fmt::Write, time::Instant};

use super::*;

/// Counts rows and forgets them.
#[derive(Default)]
struct Counter {
    rows: u64,
    errors: Vec<SqlError>,
}

impl ResultSink for Counter {
    fn columns(&mut self, _: &[ColumnMeta]) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SinkClosed> {
        self.rows += u64::from(!row.is_empty());
        Ok(())
    }

    fn statement_done(&mut self, _: Option<u64>) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn info(&mut self, _: &SqlError) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn error(&mut self, error: &SqlError) -> Result<(), SinkClosed> {
        self.errors.push(error.clone());
        Ok(())
    }

    fn database_changed(&mut self, _: &str, _: &str) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn return_status(&mut self, _: i32) -> Result<(), SinkClosed> {
        Ok(())
    }
}

#[test]
#[ignore = "a measurement; run it optimised"]
fn throughput() {
    let e = engine();
    let mut s = admin(&e);
    let columns = "id bigint NOT NULL PRIMARY KEY, a int, b decimal(12,2), c money, d datetime2(7), e date, f nvarchar(50), g varchar(30),
                   h uniqueidentifier, i bit, j float, k varbinary(16)";
    ok(
        &mut s,
        &format!("CREATE TABLE plain ({columns}); CREATE TABLE tracked ({columns}); EXEC sys.sp_cdc_enable_db"),
    );
    ok(&mut s, "EXEC sys.sp_cdc_enable_table N'dbo', N'tracked', NULL");
    let total = 200_000;
    for table in ["plain", "tracked"] {
        let start = Instant::now();
        for batch in 0..total / 1000 {
            let mut sql = format!("INSERT INTO dbo.{table} VALUES ");
            for row in 0..1000 {
                let id = batch * 1000 + row;
                let comma = if row == 0 { "" } else { "," };
                write!(
                    sql,
                    "{comma}({id}, {row}, 12.5, 99.99, '2024-05-06 07:08:09.1234567', '2024-05-06', N'name of customer {id}', 'phone {id}',
                     '00112233-4455-6677-8899-AABBCCDDEEFF', 1, 1.5e0, 0x00112233)"
                )
                .unwrap();
            }
            let mut sink = Counter::default();
            s.execute(&sql, &[], &mut sink).unwrap();
            assert!(sink.errors.is_empty(), "{:?}", sink.errors);
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("insert into {table}: {:.0} rows/s", f64::from(total) / seconds);
    }
    let start = Instant::now();
    let mut sink = Counter::default();
    s.execute(
        "SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation], id, a, b, c, d, e, f, g, h, i, j, k FROM cdc.dbo_tracked_CT
         WHERE [__$start_lsn] >= 0x00 AND [__$start_lsn] <= sys.fn_cdc_get_max_lsn()
         ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]",
        &[],
        &mut sink,
    )
    .unwrap();
    assert_eq!((sink.rows, sink.errors.len()), (total as u64, 0));
    println!(
        "ordered read of the change table: {:.0} rows/s",
        f64::from(total) / start.elapsed().as_secs_f64()
    );
}
