//! Which change comes next. A planner knows the keys that are there, so that every statement does what was counted.

use std::fmt::Write;

use chrono::{DateTime, Duration, NaiveDateTime};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::people::{self, pick, quoted, quoted_or_null};

const STATUSES: [&str; 5] = ["new", "paid", "packed", "shipped", "returned"];
/// Shares of inserts, updates, key updates and deletes, in hundredths of all changes.
const SHARES: [u64; 4] = [77, 15, 3, 5];
/// Rows of one multi-row INSERT: SQL Server takes 1,000 at most.
const MAX_VALUES: usize = 500;
/// What a key update adds to `line_no`; nobody orders that many lines.
const LINE_SHIFT: i64 = 100;
/// When the first customer came: 2025-01-01 in seconds since 1970.
const FIRST_SECOND: i64 = 1_735_689_600;

/// The keys that are in the tables.
#[derive(Debug, Default)]
pub(super) struct Live {
    customers: Vec<i64>,
    orders: Vec<i64>,
    items: Vec<(i64, i64)>,
    last_customer: i64,
    last_order: i64,
}

impl Live {
    pub(super) fn new(customers: Vec<i64>, orders: Vec<i64>, items: Vec<(i64, i64)>) -> Live {
        let last_customer = customers.iter().copied().max().unwrap_or(0);
        let last_order = orders
            .iter()
            .chain(items.iter().map(|(order, _)| order))
            .copied()
            .max()
            .unwrap_or(0);
        Live {
            customers,
            orders,
            items,
            last_customer,
            last_order,
        }
    }
}

/// How many changes a transaction is to make, and in how many rows a statement may make them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    changes: usize,
    rows_per_statement: usize,
}

/// Statements that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Transaction {
    statements: Vec<String>,
    /// What capture will record.
    pub(super) change_rows: u64,
    rolled_back: bool,
}

impl Transaction {
    /// The whole transaction as one batch.
    pub(super) fn batch(&self) -> String {
        let end = if self.rolled_back {
            "ROLLBACK TRANSACTION"
        } else {
            "COMMIT TRANSACTION"
        };
        format!("BEGIN TRANSACTION;\n{};\n{end};", self.statements.join(";\n"))
    }

    fn push(&mut self, statement: String, change_rows: usize) {
        self.statements.push(statement);
        self.change_rows += change_rows as u64;
    }
}

/// Plans transactions one after another.
pub(super) struct Planner {
    rng: ChaCha8Rng,
    live: Live,
    /// Inserts, updates, key updates, deletes so far.
    made: [u64; 4],
}

impl Planner {
    pub(super) fn new(seed: u64, live: Live) -> Planner {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // On existing data another stream goes on, so that the same seed does not repeat its first values.
        rng.set_stream(
            live.last_customer
                .unsigned_abs()
                .wrapping_mul(31)
                .wrapping_add(live.last_order.unsigned_abs()),
        );
        Planner {
            rng,
            live,
            made: [0; 4],
        }
    }

    /// Sizes while a backlog of `left` change rows is made: many small transactions, some large, a few very large.
    pub(super) fn fill_size(&mut self, left: u64) -> Size {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let changes = match self.rng.random_range(0..100) {
            0..40 => self.rng.random_range(1..8),
            40..90 => self.rng.random_range(20..200),
            90..99 => self.rng.random_range(300..900),
            _ => self.rng.random_range(2000..6000),
        };
        Size {
            changes: changes.min(left.max(1)),
            rows_per_statement: MAX_VALUES,
        }
    }

    /// Sizes at a steady rate: what an application does, up to a tenth of a second's worth.
    pub(super) fn run_size(&mut self, changes_per_second: f64) -> Size {
        let most = ((changes_per_second / 10.0) as usize).clamp(2, 200);
        Size {
            changes: self.rng.random_range(1..=most),
            rows_per_statement: 20,
        }
    }

    /// The next transaction. One in fifty is rolled back and changes nothing.
    pub(super) fn next(&mut self, size: Size) -> Transaction {
        let mut transaction = Transaction::default();
        if self.rng.random_range(0..50) == 0
            && let Some(&order) = self.choose_order()
        {
            transaction.statements.push(format!(
                "UPDATE dbo.orders SET status = 'void', total = 0 WHERE id = {order}"
            ));
            transaction.rolled_back = true;
            return transaction;
        }
        let mut left = size.changes;
        while left > 0 {
            let rows = left.min(size.rows_per_statement);
            let made = match self.most_wanted() {
                1 => self.update(&mut transaction, rows),
                2 => self.update_keys(&mut transaction, rows),
                3 => self.delete(&mut transaction, rows),
                _ => self.insert(&mut transaction, rows),
            };
            left = left.saturating_sub(made.max(1));
        }
        transaction
    }

    /// The kind of change that is furthest behind its share.
    fn most_wanted(&self) -> usize {
        if self.live.items.len() < 20 || self.live.customers.len() < 10 {
            return 0;
        }
        let total: u64 = self.made.iter().sum::<u64>() + 1;
        let behind = |kind: usize| (SHARES[kind] * total) as i64 - (self.made[kind] * 100) as i64;
        (0..SHARES.len()).max_by_key(|kind| behind(*kind)).unwrap_or(0)
    }

    fn insert(&mut self, transaction: &mut Transaction, rows: usize) -> usize {
        // An order and its lines go together; a new customer comes with every fifth order.
        let orders = rows.div_ceil(4);
        let customers = if self.live.customers.is_empty() {
            orders.div_ceil(2)
        } else {
            orders / 5 + usize::from(self.rng.random_range(0..5) < orders % 5)
        };
        let mut made = 0;
        let mut values = Vec::new();
        for _ in 0..customers.min(rows) {
            values.push(self.customer_row());
        }
        made += values.len();
        push_insert(
            transaction,
            "dbo.customers (id, first_name, last_name, email, phone, national_id, birth_date, city, credit_limit, \
             created_at, notes, row_guid, marketing)",
            &values,
        );
        let mut order_values = Vec::new();
        let mut item_values = Vec::new();
        while made + order_values.len() + item_values.len() < rows {
            self.live.last_order += 1;
            let order = self.live.last_order;
            order_values.push(self.order_row(order));
            self.live.orders.push(order);
            let lines = self
                .rng
                .random_range(1..=5)
                .min((rows - made).saturating_sub(order_values.len() + item_values.len()));
            for line in 1..=lines as i64 {
                item_values.push(self.item_row(order, line));
                self.live.items.push((order, line));
            }
        }
        made += order_values.len() + item_values.len();
        push_insert(
            transaction,
            "dbo.orders (id, customer_id, status, total, discount, ordered_at, shipped_on, remark, priority)",
            &order_values,
        );
        push_insert(
            transaction,
            "dbo.order_items (order_id, line_no, sku, title, quantity, unit_price, tag)",
            &item_values,
        );
        self.made[0] += made as u64;
        made
    }

    /// Every update changes something in every row: capture leaves out what stays as it was.
    fn update(&mut self, transaction: &mut Transaction, rows: usize) -> usize {
        let rows = rows.min(40);
        let made = match self.rng.random_range(0..4) {
            0 => {
                let count = rows.min(self.live.orders.len());
                let ids = self.some_orders(count);
                let status = pick(&mut self.rng, &STATUSES);
                transaction.push(
                    format!(
                        "UPDATE dbo.orders SET status = '{status}', total = total + 0.01 WHERE id IN ({})",
                        list(&ids)
                    ),
                    ids.len() * 2,
                );
                ids.len()
            }
            1 => {
                let at = self.rng.random_range(0..self.live.customers.len());
                let id = self.live.customers[at];
                let number = id + 50_000_000 + i64::try_from(self.made[1] % 10_000_000).unwrap_or(0);
                let person = people::person(&mut self.rng, number);
                transaction.push(
                    format!(
                        "UPDATE dbo.customers SET email = {}, phone = {}, city = {}, credit_limit = credit_limit + 0.01 \
                         WHERE id = {id}",
                        quoted_or_null(person.email.as_deref()),
                        quoted_or_null(person.phone.as_deref()),
                        quoted_or_null(person.city.as_deref()),
                    ),
                    2,
                );
                1
            }
            2 => {
                let at = self.rng.random_range(0..self.live.customers.len());
                let id = self.live.customers[at];
                let note = people::note(&mut self.rng, "Customer");
                transaction.push(
                    format!(
                        "UPDATE dbo.customers SET notes = {}, marketing = 1 - marketing WHERE id = {id}",
                        quoted_or_null(note.as_deref())
                    ),
                    2,
                );
                1
            }
            _ => {
                let at = self.rng.random_range(0..self.live.items.len());
                let (order, line) = self.live.items[at];
                transaction.push(
                    format!(
                        "UPDATE dbo.order_items SET quantity = quantity % 2000 + 1 WHERE order_id = {order} AND \
                         line_no = {line}"
                    ),
                    2,
                );
                1
            }
        };
        self.made[1] += made as u64;
        made
    }

    fn update_keys(&mut self, transaction: &mut Transaction, rows: usize) -> usize {
        let made = if self.rng.random_range(0..4) == 0 {
            let at = self.rng.random_range(0..self.live.customers.len());
            self.live.last_customer += 1;
            let (old, new) = (self.live.customers[at], self.live.last_customer);
            self.live.customers[at] = new;
            transaction.push(format!("UPDATE dbo.customers SET id = {new} WHERE id = {old}"), 2);
            1
        } else {
            let at = self.rng.random_range(0..self.live.items.len());
            let (order, line) = self.live.items[at];
            if rows < 6 || self.rng.random_bool(0.7) {
                self.live.items[at].1 += LINE_SHIFT;
                let shift = format!("SET line_no = line_no + {LINE_SHIFT}");
                transaction.push(
                    format!("UPDATE dbo.order_items {shift} WHERE order_id = {order} AND line_no = {line}"),
                    2,
                );
                1
            } else {
                // All lines of an order in one statement: several keys change at once.
                let mut moved = 0;
                for (_, line) in self.live.items.iter_mut().filter(|(of, _)| *of == order) {
                    *line += LINE_SHIFT;
                    moved += 1;
                }
                transaction.push(
                    format!("UPDATE dbo.order_items SET line_no = line_no + {LINE_SHIFT} WHERE order_id = {order}"),
                    moved * 2,
                );
                moved
            }
        };
        self.made[2] += made as u64;
        made
    }

    fn delete(&mut self, transaction: &mut Transaction, rows: usize) -> usize {
        let made = match self.rng.random_range(0..10) {
            0 => {
                let at = self.rng.random_range(0..self.live.customers.len());
                let id = self.live.customers.swap_remove(at);
                transaction.push(format!("DELETE FROM dbo.customers WHERE id = {id}"), 1);
                1
            }
            1..4 if self.live.orders.len() > 40 => {
                let count = rows.min(10);
                let ids = self.some_orders(count);
                self.live.orders.retain(|order| !ids.contains(order));
                transaction.push(
                    format!("DELETE FROM dbo.orders WHERE id IN ({})", list(&ids)),
                    ids.len(),
                );
                ids.len()
            }
            _ => {
                let at = self.rng.random_range(0..self.live.items.len());
                let (order, line) = self.live.items.swap_remove(at);
                transaction.push(
                    format!("DELETE FROM dbo.order_items WHERE order_id = {order} AND line_no = {line}"),
                    1,
                );
                1
            }
        };
        self.made[3] += made as u64;
        made
    }

    fn customer_row(&mut self) -> String {
        self.live.last_customer += 1;
        let id = self.live.last_customer;
        self.live.customers.push(id);
        let person = people::person(&mut self.rng, id);
        let note = people::note(&mut self.rng, &person.last_name);
        let birth_date = person
            .birth_date
            .map_or_else(|| "NULL".to_owned(), |date| format!("'{date}'"));
        let credit = self.rng.random_range(-50_000..5_000_000_i64);
        let fraction = self.rng.random_range(0..10_000_000);
        format!(
            "({id}, {}, {}, {}, {}, {}, {birth_date}, {}, {}, '{}.{fraction:07}', {}, '{}', {})",
            quoted(&person.first_name),
            quoted(&person.last_name),
            quoted_or_null(person.email.as_deref()),
            quoted_or_null(person.phone.as_deref()),
            quoted_or_null(person.national_id.as_deref()),
            quoted_or_null(person.city.as_deref()),
            hundredths(credit),
            self.moment(id * 37).format("%Y-%m-%d %H:%M:%S"),
            quoted_or_null(note.as_deref()),
            guid(self.rng.random()),
            u8::from(self.rng.random_bool(0.4)),
        )
    }

    fn order_row(&mut self, order: i64) -> String {
        let at = self.rng.random_range(0..self.live.customers.len().max(1));
        let customer = self.live.customers.get(at).copied().unwrap_or(0);
        let total = self.rng.random_range(100..90_000_000_i64);
        let discount = match self.rng.random_range(0..4) {
            0 => "NULL".to_owned(),
            _ => format!("{:e}", f64::from(self.rng.random_range(0..5000_u32)) / 7.0),
        };
        let ordered = self.moment(order * 11);
        let shipped = match self.rng.random_range(0..3) {
            0 => "NULL".to_owned(),
            _ => format!("'{}'", (ordered + Duration::days(self.rng.random_range(0..20))).date()),
        };
        let remark = match self.rng.random_range(0..10) {
            0 => quoted("Leave it at the neighbour's 🚪"),
            1 => quoted(""),
            _ => "NULL".to_owned(),
        };
        format!(
            "({order}, {customer}, '{}', {}.{:04}, {discount}, '{}.{:03}', {shipped}, {remark}, {})",
            pick(&mut self.rng, &STATUSES),
            total / 10_000,
            total % 10_000,
            ordered.format("%Y-%m-%d %H:%M:%S"),
            self.rng.random_range(0..1000),
            self.rng.random_range(0..=255),
        )
    }

    fn item_row(&mut self, order: i64, line: i64) -> String {
        let tag = match self.rng.random_range(0..3) {
            0 => "NULL".to_owned(),
            _ => {
                let bytes: [u8; 12] = self.rng.random();
                let length = self.rng.random_range(0..=bytes.len());
                bytes[..length].iter().fold("0x".to_owned(), |mut hex, byte| {
                    // Writing to a String cannot fail.
                    let _ = write!(hex, "{byte:02X}");
                    hex
                })
            }
        };
        let title = if self.rng.random_bool(0.9) {
            quoted(&format!("Widget №{} “blue”", self.rng.random_range(1..400)))
        } else {
            "NULL".to_owned()
        };
        format!(
            "({order}, {line}, 'SKU-{:06}', {title}, {}, {}, {tag})",
            self.rng.random_range(0..1_000_000),
            self.rng.random_range(1..50),
            hundredths(self.rng.random_range(1..1_000_000)),
        )
    }

    /// A time of the workload's own clock, which only its keys move.
    fn moment(&self, seconds: i64) -> NaiveDateTime {
        DateTime::from_timestamp(FIRST_SECOND + seconds, 0)
            .unwrap_or_default()
            .naive_utc()
    }

    fn choose_order(&mut self) -> Option<&i64> {
        if self.live.orders.is_empty() {
            return None;
        }
        let at = self.rng.random_range(0..self.live.orders.len());
        self.live.orders.get(at)
    }

    /// `count` different orders that stand together in the list.
    fn some_orders(&mut self, count: usize) -> Vec<i64> {
        let count = count.clamp(1, self.live.orders.len().max(1));
        let start = self.rng.random_range(0..=self.live.orders.len().saturating_sub(count));
        self.live.orders[start..(start + count).min(self.live.orders.len())].to_vec()
    }
}

fn push_insert(transaction: &mut Transaction, target: &str, values: &[String]) {
    for rows in values.chunks(MAX_VALUES) {
        transaction.push(format!("INSERT INTO {target} VALUES {}", rows.join(", ")), rows.len());
    }
}

fn list(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn hundredths(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", value.abs() / 100, value.abs() % 100)
}

fn guid(number: u128) -> String {
    let hex = format!("{number:032X}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64, rows: u64) -> (Vec<Transaction>, Planner) {
        let mut planner = Planner::new(seed, Live::default());
        let (mut transactions, mut made) = (Vec::new(), 0);
        while made < rows {
            let size = planner.fill_size(rows - made);
            let transaction = planner.next(size);
            made += transaction.change_rows;
            transactions.push(transaction);
        }
        (transactions, planner)
    }

    #[test]
    fn a_seed_decides_everything() {
        let (first, _) = plan(7, 3000);
        assert_eq!(first, plan(7, 3000).0);
        assert_ne!(first, plan(8, 3000).0);
    }

    #[test]
    fn shares_and_sizes_are_as_promised() {
        let (transactions, planner) = plan(7, 100_000);
        let total: u64 = planner.made.iter().sum();
        for (kind, share) in SHARES.iter().enumerate() {
            let hundredths = planner.made[kind] * 100 / total;
            assert!(hundredths.abs_diff(*share) <= 1, "kind {kind}: {hundredths}");
        }
        assert!(transactions.iter().any(|transaction| transaction.change_rows > 1500));
        assert!(transactions.iter().any(|transaction| transaction.rolled_back));
        let small = transactions
            .iter()
            .filter(|transaction| transaction.change_rows < 20)
            .count();
        assert!(small > transactions.len() / 4);
    }

    #[test]
    fn on_existing_data_the_same_seed_makes_fresh_values() {
        let fresh = Planner::new(7, Live::default()).rng.random::<u64>();
        let later = Planner::new(7, Live::new(vec![1, 2], vec![5], vec![(5, 1)]))
            .rng
            .random::<u64>();
        assert_ne!(fresh, later);
    }

    #[test]
    fn numbers_are_written_as_tsql_reads_them() {
        assert_eq!((hundredths(-5), hundredths(12_345)), ("-0.05".into(), "123.45".into()));
        assert_eq!(guid(0x0123), "00000000-0000-0000-0000-000000000123");
    }
}
