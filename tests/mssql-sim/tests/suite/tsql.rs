//! FreeTDS `tsql`.

use std::process::Command;

use mssql_sim::Encryption;

use crate::every_type;
use crate::harness::{PASSWORD, Sim, USER, run};

/// What `tsql` printed for a script, prompts included, and whether it connected.
fn tsql(sim: &Sim, password: &str, database: &str, input: &str) -> (String, String) {
    let mut command = Command::new("tsql");
    command.env("LC_ALL", "C.UTF-8").env("TDSVER", "7.4");
    command.args([
        "-H",
        "127.0.0.1",
        "-p",
        &sim.port().to_string(),
        "-U",
        USER,
        "-P",
        password,
        "-D",
        database,
    ]);
    command.args(["-o", "q"]);
    let output = run(&mut command, &format!("{input}\nexit\n"));
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn it_logs_in_and_reads_every_type() {
    let sim = Sim::with_probe();
    sim.script(&format!("USE probe\nGO\n{}", every_type::create_script()));
    let names = "c_bigint, c_dec38_10, c_money, c_smallmoney, c_varchar, c_nvarchar, c_varbinary, c_guid, c_dec38_0, \
                 c_text, c_image, c_xml, c_json, c_vector";
    for table in ["every_type", "every_type_nn"] {
        let (out, err) = tsql(
            &sim,
            PASSWORD,
            "probe",
            &format!("SELECT {names} FROM dbo.{table} ORDER BY id\ngo"),
        );
        let first = "9223372036854775807\t9999999999999999999999999999.9999999999\t922337203685477.5807\t214748.3647\t\
                     it's Ÿ\t𝒜 'q' \"d\" 漢字\tdeadbeef00\t00112233-4455-6677-8899-AABBCCDDEEFF\t\
                     99999999999999999999999999999999999999\t\
                     it's Ÿ\tdeadbeef00\t<a b=\"1\">é😀</a>\t{\"a\":[1,\"é\"]}\t[1.0,-0.5,0.25]";
        assert!(out.contains(first), "{out}\n{err}");
        let second = "-9223372036854775808\t-9999999999999999999999999999.9999999999\t-922337203685477.5808\t\
                      -214748.3648\t\t\t\tFFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFE\t-99999999999999999999999999999999999999\t\
                      \t\t\t[]\t[0.0,0.0,0.0]";
        assert!(out.contains(second), "{out}\n{err}");
        assert_eq!(out.contains(&["NULL"; 14].join("\t")), table == "every_type", "{out}");
    }
    // All columns at once: a NULL bitmap of several bytes, and values of many packets.
    let (out, err) = tsql(
        &sim,
        PASSWORD,
        "probe",
        &format!("{}\ngo", every_type::select("every_type")),
    );
    assert_eq!(
        out.matches(&"漢".repeat(20_000)).count(),
        2,
        "nvarchar(max), ntext: {err}"
    );
    assert!(out.contains(&["NULL"; every_type::COLUMNS.len()].join("\t")), "{err}");
}

#[test]
fn a_wrong_password_is_18456_and_an_unknown_database_4060() {
    let sim = Sim::start();
    let (_, err) = tsql(&sim, "wrong", "master", "SELECT 1\ngo");
    assert!(
        err.contains("Msg 18456 (severity 14, state 1)") && err.contains("Login failed for user 'sa'."),
        "{err}"
    );
    let (_, err) = tsql(&sim, PASSWORD, "nowhere", "SELECT 1\ngo");
    assert!(err.contains("Msg 4060"), "{err}");
    assert!(
        err.contains("Cannot open database \"nowhere\" requested by the login. The login failed."),
        "{err}"
    );
}

#[test]
fn a_script_writes_reads_and_meets_errors_where_they_belong() {
    let sim = Sim::with_probe();
    let script = "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)\ngo\n\
                  INSERT INTO dbo.t VALUES (1, N'Žofia'), (2, NULL)\nSELECT id, name FROM dbo.t ORDER BY id\nSELECT COUNT(*) FROM dbo.t\ngo\n\
                  INSERT INTO dbo.t VALUES (1, N'again')\ngo\n\
                  SELECT * FROM dbo.nothing\ngo\n\
                  PRINT N'done 😀'\ngo";
    let (out, err) = tsql(&sim, PASSWORD, "probe", script);
    assert!(out.contains("1\tŽofia\n2\tNULL\n\n2\n"), "{out}\n{err}");
    assert!(err.contains("Msg 2627") && err.contains("Msg 208"), "{err}");
    assert!(format!("{out}{err}").contains("done 😀"), "{out}\n{err}");
}

#[test]
fn an_error_names_the_line_of_its_batch() {
    let sim = Sim::with_probe();
    let script = "SELECT 1\n\nSELECT * FROM dbo.nothing\ngo\nSELECT 1;\nSELEC 2\ngo";
    let (_, err) = tsql(&sim, PASSWORD, "probe", script);
    for words in [
        "msg 208 (severity 16, state 1) from mssql-sim line 3:",
        "msg 102 (severity 15, state 1) from mssql-sim line 2:",
    ] {
        assert!(err.to_lowercase().contains(words), "{words} in {err}");
    }
}

#[test]
fn encryption_off_and_required_both_let_it_in() {
    for encryption in [Encryption::Off, Encryption::Required] {
        let sim = Sim::with(encryption);
        let (out, err) = tsql(&sim, PASSWORD, "master", "SELECT 40 + 2\ngo");
        assert!(out.contains("42"), "{encryption:?}: {out}\n{err}");
    }
}
