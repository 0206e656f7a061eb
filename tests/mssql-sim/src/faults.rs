//! Faults on demand: `EXEC sim.fault @kind = N'…', …`, for the administrator's login only. README.md lists the kinds.
//!
//! Faults belong to the server, not to a connection: the next one that fits, on whatever connection, takes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mssql_sim_engine::value::Value;

use crate::exec_call::ExecCall;

/// What a fault does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Closes the connection (FIN) after this many rows of a result set.
    DropAfterRows(u64),
    /// Resets the connection (RST) in the middle of the row after this many.
    ResetInRow(u64),
    /// Sends nothing more, and never closes, after this many rows.
    SilentAfterRows(u64),
    /// Waits this long before each row.
    SlowRows(Duration),
    /// Runs a batch as the administrator after some rows of a result set.
    SqlAfterRows {
        /// After how many rows.
        rows: u64,
        /// Where the batch runs; `None` is the administrator's default database.
        database: Option<String>,
        /// The batch.
        sql: String,
    },
    /// Runs a batch as the administrator before the request.
    SqlBefore {
        /// Where the batch runs; `None` is the administrator's default database.
        database: Option<String>,
        /// The batch.
        sql: String,
    },
    /// Answers a request with an error instead of running it. The transaction is rolled back for 1205.
    Error {
        /// SQL Server's number.
        number: i32,
        /// The text; `None` is SQL Server's own for the numbers that sluice knows.
        message: Option<String>,
    },
    /// Keeps a request waiting as behind a lock: until [`Faults::release`], or until its `SET LOCK_TIMEOUT` runs out, which
    /// is error 1222.
    LockWait,
    /// Shows a request CDC as an older copy of the database has it.
    OlderCopy {
        /// Entries of `cdc.lsn_time_mapping` that the copy lacks.
        entries: u64,
    },
    /// Refuses a login with an error.
    LoginFail {
        /// SQL Server's number.
        number: i32,
    },
    /// Sends a login on to another server, as Azure SQL does.
    Redirect {
        /// The other server's name.
        host: String,
        /// Its TCP port.
        port: u16,
    },
    /// Ends a connection on its way to a login.
    CutLogin {
        /// What gets no answer.
        step: LoginStep,
        /// By a reset (RST) rather than by FIN.
        reset: bool,
    },
}

/// A step of a client on its way to a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginStep {
    /// Its prelogin.
    Prelogin,
    /// The beginning of its TLS handshake.
    Hello,
    /// Its answer to the server's certificate, where the handshake travels in prelogin packets.
    KeyExchange,
    /// Its login.
    Login,
}

impl LoginStep {
    fn parse(name: &str) -> Option<LoginStep> {
        match name.to_ascii_lowercase().as_str() {
            "prelogin" => Some(LoginStep::Prelogin),
            "hello" => Some(LoginStep::Hello),
            "key_exchange" => Some(LoginStep::KeyExchange),
            "login" => Some(LoginStep::Login),
            _ => None,
        }
    }
}

/// A fault with its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// How often it happens before it is used up.
    pub times: u32,
    /// Only requests whose text contains this, ignoring ASCII case.
    pub matching: Option<String>,
    /// Only this login.
    pub login: Option<String>,
}

impl Fault {
    /// A fault that hits the next request or login, whichever it is, once.
    pub fn once(kind: FaultKind) -> Fault {
        Fault {
            kind,
            times: 1,
            matching: None,
            login: None,
        }
    }

    fn fits(&self, login: &str, text: &str) -> bool {
        let contains = |part: &String| text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
        self.login.as_ref().is_none_or(|only| only.eq_ignore_ascii_case(login))
            && self.matching.as_ref().is_none_or(contains)
    }

    fn concerns_rows(&self) -> bool {
        matches!(
            self.kind,
            FaultKind::DropAfterRows(_)
                | FaultKind::ResetInRow(_)
                | FaultKind::SilentAfterRows(_)
                | FaultKind::SlowRows(_)
                | FaultKind::SqlAfterRows { .. }
        )
    }
}

/// A fault that a result set may run into; taken only when its row is reached.
#[derive(Debug, Clone)]
pub(crate) struct RowFault {
    id: u64,
    pub(crate) kind: FaultKind,
}

impl RowFault {
    /// The number of rows after which it happens.
    pub(crate) fn after_rows(&self) -> u64 {
        match self.kind {
            FaultKind::DropAfterRows(rows)
            | FaultKind::ResetInRow(rows)
            | FaultKind::SilentAfterRows(rows)
            | FaultKind::SqlAfterRows { rows, .. } => rows,
            _ => 0,
        }
    }
}

/// The faults that wait for their moment.
#[derive(Debug, Default)]
pub struct Faults {
    /// So that an unarmed server pays one load, not a lock.
    armed: AtomicUsize,
    waiting: Mutex<Waiting>,
    locks: Locks,
}

/// Requests that wait behind the lock of a fault.
#[derive(Debug, Default)]
struct Locks {
    blocked: AtomicUsize,
    /// Rises with every release; who waits goes on when it has risen.
    releases: AtomicUsize,
}

/// A wait behind the lock of a fault; it ends when this is dropped.
pub(crate) struct Blocked<'f> {
    locks: &'f Locks,
    since: usize,
}

impl Blocked<'_> {
    /// Whether the lock was released.
    pub(crate) fn is_released(&self) -> bool {
        self.locks.releases.load(Ordering::Acquire) != self.since
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.locks.blocked.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug, Default)]
struct Waiting {
    next_id: u64,
    faults: Vec<(u64, Fault)>,
}

impl Faults {
    /// Adds a fault behind those that wait already.
    pub fn arm(&self, fault: Fault) {
        self.change(|waiting| {
            waiting.next_id += 1;
            waiting.faults.push((waiting.next_id, fault));
        });
    }

    /// Forgets all faults, and lets go on who waits behind one.
    pub fn clear(&self) {
        self.change(|waiting| waiting.faults.clear());
        self.release();
    }

    /// Lets every request go on that waits behind a [`FaultKind::LockWait`].
    pub fn release(&self) {
        self.locks.releases.fetch_add(1, Ordering::AcqRel);
    }

    /// How many requests wait behind a [`FaultKind::LockWait`].
    pub fn blocked(&self) -> usize {
        self.locks.blocked.load(Ordering::Acquire)
    }

    pub(crate) fn block(&self) -> Blocked<'_> {
        let since = self.locks.releases.load(Ordering::Acquire);
        self.locks.blocked.fetch_add(1, Ordering::AcqRel);
        Blocked {
            locks: &self.locks,
            since,
        }
    }

    /// How many faults wait.
    pub fn waiting(&self) -> usize {
        self.armed.load(Ordering::Acquire)
    }

    pub(crate) fn take_for_login(&self, login: &str) -> Option<FaultKind> {
        self.take(|fault| {
            matches!(fault.kind, FaultKind::LoginFail { .. } | FaultKind::Redirect { .. }) && fault.fits(login, "")
        })
    }

    /// Whether a connection ends at this step, and whether by a reset. `login` is known at the last one alone.
    pub(crate) fn take_for_step(&self, step: LoginStep, login: &str) -> Option<bool> {
        let ends = |fault: &Fault| matches!(fault.kind, FaultKind::CutLogin { step: at, .. } if at == step);
        match self.take(|fault| ends(fault) && fault.fits(login, "")) {
            Some(FaultKind::CutLogin { reset, .. }) => Some(reset),
            _ => None,
        }
    }

    pub(crate) fn take_for_request(&self, login: &str, text: &str) -> Option<FaultKind> {
        self.take(|fault| {
            matches!(
                fault.kind,
                FaultKind::Error { .. }
                    | FaultKind::SqlBefore { .. }
                    | FaultKind::LockWait
                    | FaultKind::OlderCopy { .. }
            ) && fault.fits(login, text)
        })
    }

    pub(crate) fn for_result_set(&self, login: &str, text: &str) -> Option<RowFault> {
        if self.waiting() == 0 {
            return None;
        }
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(_, fault): &&(u64, Fault)| fault.concerns_rows() && fault.fits(login, text);
        waiting.faults.iter().find(fits).map(|(id, fault)| RowFault {
            id: *id,
            kind: fault.kind.clone(),
        })
    }

    /// Takes a row fault whose moment has come; false when another result set was first.
    pub(crate) fn claim(&self, fault: &RowFault) -> bool {
        self.change(|waiting| {
            let at = waiting.faults.iter().position(|(id, _)| *id == fault.id);
            at.map(|at| waiting.use_once(at)).is_some()
        })
    }

    fn take(&self, fits: impl Fn(&Fault) -> bool) -> Option<FaultKind> {
        if self.waiting() == 0 {
            return None;
        }
        self.change(|waiting| {
            let at = waiting.faults.iter().position(|(_, fault)| fits(fault))?;
            Some(waiting.use_once(at))
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut waiting);
        self.armed.store(waiting.faults.len(), Ordering::Release);
        result
    }
}

impl Waiting {
    fn use_once(&mut self, at: usize) -> FaultKind {
        let (_, fault) = &mut self.faults[at];
        let kind = fault.kind.clone();
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.faults.remove(at);
        }
        kind
    }
}

/// What `EXEC sim.fault` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FaultRequest {
    Arm(Fault),
    Clear,
    Release,
    State,
}

/// Reads the arguments of `sim.fault`. The error is a sentence for the client.
pub(crate) fn parse_request(call: &ExecCall) -> Result<FaultRequest, String> {
    for (name, _) in &call.arguments {
        let known = [
            "kind", "rows", "number", "message", "ms", "times", "match", "login", "database", "sql", "host", "port",
            "entries", "step", "reset",
        ];
        if !known
            .iter()
            .any(|known| name.eq_ignore_ascii_case(&format!("@{known}")))
        {
            return Err(format!(
                "sim.fault has no parameter {name:?}; it has {}",
                known.map(|name| format!("@{name}")).join(", ")
            ));
        }
    }
    let text = |name: &str| match call.argument(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("sim.fault: {name} is to be a string")),
    };
    let number = |name: &str| match call.argument(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(number)) if *number >= 0 => Ok(Some(*number)),
        Some(_) => Err(format!("sim.fault: {name} is to be a number from 0")),
    };
    let needed = |name: &str, value: Option<String>| value.ok_or_else(|| format!("sim.fault: {name} is missing"));
    let rows = number("@rows")?.unwrap_or(0).unsigned_abs();
    let message_number = |default: i32| -> Result<i32, String> {
        let number = number("@number")?.unwrap_or(i64::from(default));
        i32::try_from(number).map_err(|_| "sim.fault: @number is too large".to_owned())
    };
    let kind = match needed("@kind", text("@kind")?)?.to_ascii_lowercase().as_str() {
        "clear" => return Ok(FaultRequest::Clear),
        "release" => return Ok(FaultRequest::Release),
        "state" => return Ok(FaultRequest::State),
        "lock_wait" => FaultKind::LockWait,
        "older_copy" => FaultKind::OlderCopy {
            entries: number("@entries")?.unwrap_or(1).unsigned_abs(),
        },
        "drop_after_rows" => FaultKind::DropAfterRows(rows),
        "reset_in_row" => FaultKind::ResetInRow(rows),
        "silent_after_rows" => FaultKind::SilentAfterRows(rows),
        "slow_rows" => FaultKind::SlowRows(Duration::from_millis(number("@ms")?.unwrap_or(10).unsigned_abs())),
        "sql_after_rows" => FaultKind::SqlAfterRows {
            rows,
            database: text("@database")?,
            sql: needed("@sql", text("@sql")?)?,
        },
        "sql_before" => FaultKind::SqlBefore {
            database: text("@database")?,
            sql: needed("@sql", text("@sql")?)?,
        },
        "error" => FaultKind::Error {
            number: message_number(1205)?,
            message: text("@message")?,
        },
        "login_fail" => FaultKind::LoginFail {
            number: message_number(18456)?,
        },
        "redirect" => FaultKind::Redirect {
            host: needed("@host", text("@host")?)?,
            port: number("@port")?
                .and_then(|port| u16::try_from(port).ok())
                .ok_or("sim.fault: @port is missing or no port")?,
        },
        "cut_login" => FaultKind::CutLogin {
            step: LoginStep::parse(&needed("@step", text("@step")?)?)
                .ok_or("sim.fault: @step is to be prelogin, hello, key_exchange or login")?,
            reset: number("@reset")?.unwrap_or(0) != 0,
        },
        other => {
            return Err(format!(
                "sim.fault knows no kind {other:?}; README.md of mssql-sim lists them"
            ));
        }
    };
    let times = u32::try_from(number("@times")?.unwrap_or(1)).unwrap_or(u32::MAX).max(1);
    let login = text("@login")?;
    if login.is_some() && matches!(kind, FaultKind::CutLogin { step, .. } if step != LoginStep::Login) {
        return Err("sim.fault: nobody is known by name before the step login; leave @login out".to_owned());
    }
    Ok(FaultRequest::Arm(Fault {
        kind,
        times,
        matching: text("@match")?,
        login,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec_call;

    fn request(sql: &str) -> Result<FaultRequest, String> {
        parse_request(&exec_call::parse(sql, "sim.fault").unwrap().unwrap())
    }

    #[test]
    fn a_fault_hits_what_it_names_and_is_used_up() {
        let faults = Faults::default();
        let Ok(FaultRequest::Arm(fault)) = request(
            "EXEC sim.fault @kind = N'error', @number = 1222, @times = 2, @match = N'dbo_orders_ct', @login='reader'",
        ) else {
            panic!("not armed")
        };
        faults.arm(fault);
        assert_eq!(faults.take_for_request("sa", "SELECT * FROM cdc.dbo_orders_CT"), None);
        assert_eq!(faults.take_for_request("reader", "SELECT 1"), None);
        let expected = Some(FaultKind::Error {
            number: 1222,
            message: None,
        });
        assert_eq!(
            faults.take_for_request("Reader", "SELECT * FROM cdc.dbo_orders_CT"),
            expected
        );
        assert_eq!(
            faults.take_for_request("reader", "SELECT * FROM cdc.dbo_orders_CT"),
            expected
        );
        assert_eq!(
            faults.take_for_request("reader", "SELECT * FROM cdc.dbo_orders_CT"),
            None
        );
        assert_eq!(faults.waiting(), 0);
    }

    #[test]
    fn every_kind_is_armed_by_its_name() {
        for (arguments, kind) in [
            ("'drop_after_rows', @rows = 2", FaultKind::DropAfterRows(2)),
            ("'reset_in_row', @rows = 2", FaultKind::ResetInRow(2)),
            ("'silent_after_rows', @rows = 2", FaultKind::SilentAfterRows(2)),
            ("'slow_rows', @ms = 7", FaultKind::SlowRows(Duration::from_millis(7))),
            (
                "'sql_after_rows', @rows = 2, @sql = 'SELECT 1', @database = 'd'",
                FaultKind::SqlAfterRows {
                    rows: 2,
                    database: Some("d".into()),
                    sql: "SELECT 1".into(),
                },
            ),
            (
                "'sql_before', @sql = 'SELECT 1'",
                FaultKind::SqlBefore {
                    database: None,
                    sql: "SELECT 1".into(),
                },
            ),
            (
                "'error'",
                FaultKind::Error {
                    number: 1205,
                    message: None,
                },
            ),
            ("'lock_wait'", FaultKind::LockWait),
            ("'older_copy', @entries = 3", FaultKind::OlderCopy { entries: 3 }),
            ("'login_fail'", FaultKind::LoginFail { number: 18456 }),
            (
                "'redirect', @host = 'h', @port = 1",
                FaultKind::Redirect {
                    host: "h".into(),
                    port: 1,
                },
            ),
            (
                "'cut_login', @step = 'key_exchange', @reset = 1",
                FaultKind::CutLogin {
                    step: LoginStep::KeyExchange,
                    reset: true,
                },
            ),
        ] {
            let armed = request(&format!("EXEC sim.fault @kind = {arguments}"));
            assert_eq!(armed, Ok(FaultRequest::Arm(Fault::once(kind))), "{arguments}");
        }
        for (word, wanted) in [
            ("clear", FaultRequest::Clear),
            ("release", FaultRequest::Release),
            ("state", FaultRequest::State),
        ] {
            assert_eq!(request(&format!("EXEC sim.fault @kind = '{word}'")), Ok(wanted));
        }
    }

    #[test]
    fn only_one_result_set_claims_a_row_fault() {
        let faults = Faults::default();
        faults.arm(Fault::once(FaultKind::DropAfterRows(3)));
        let (first, second) = (
            faults.for_result_set("a", "").unwrap(),
            faults.for_result_set("b", "").unwrap(),
        );
        assert_eq!(first.after_rows(), 3);
        assert!(faults.claim(&second));
        assert!(!faults.claim(&first));
    }

    #[test]
    fn what_it_does_not_know_is_said() {
        assert!(
            request("EXEC sim.fault @kind = N'explode'")
                .unwrap_err()
                .contains("explode")
        );
        assert!(
            request("EXEC sim.fault @rows = 3")
                .unwrap_err()
                .contains("@kind is missing")
        );
        assert!(
            request("EXEC sim.fault @kind = 'clear', @row = 3")
                .unwrap_err()
                .contains("@row")
        );
        for (arguments, words) in [
            ("@kind = 'cut_login'", "@step is missing"),
            ("@kind = 'cut_login', @step = 'half way'", "prelogin, hello"),
            (
                "@kind = 'cut_login', @step = 'hello', @login = 'reader'",
                "leave @login out",
            ),
        ] {
            let problem = request(&format!("EXEC sim.fault {arguments}")).unwrap_err();
            assert!(problem.contains(words), "{arguments}: {problem}");
        }
        assert_eq!(request("EXEC sim.fault @kind = 'clear';"), Ok(FaultRequest::Clear));
    }
}
