//! What decides beside the chain which rows it takes, as the plan of a batch pins it, and in which of it two plans differ.

use crate::config::TableSettings;
use crate::transform::OnError;

/// What decides beside the chain which rows it takes: a row that overruns a limit, or shows a protected value, can go into
/// quarantine. A deadline cannot.
pub(super) fn bounds(settings: &TableSettings) -> String {
    let transforms = settings.transforms.iter().map(|transform| {
        let on_error = match transform.on_error {
            OnError::Fail => "fail",
            OnError::Quarantine => "quarantine",
        };
        format!(
            "{on_error} memory {} output {}",
            transform.memory_bytes, transform.output_bytes
        )
    });
    let mut protect = settings.protect.clone();
    protect.sort_unstable();
    format!(
        "{}; protect {}; leak_check {:?}",
        transforms.collect::<Vec<_>>().join(", "),
        protect.join(", "),
        settings.leak_check
    )
    .to_lowercase()
}

/// What such a text says.
struct Bounds<'a> {
    transforms: Vec<OfTransform<'a>>,
    protect: &'a str,
    leak_check: &'a str,
}

struct OfTransform<'a> {
    on_error: &'a str,
    memory: &'a str,
    output: &'a str,
}

impl<'a> Bounds<'a> {
    /// `None` of a text in another form, such as one of a later version.
    fn read(text: &'a str) -> Option<Bounds<'a>> {
        let (transforms, rest) = text.split_once("; protect ")?;
        // A column may have any name.
        let (protect, leak_check) = rest.rsplit_once("; leak_check ")?;
        let transforms = transforms.split(", ").filter(|text| !text.is_empty());
        Some(Bounds {
            transforms: transforms.map(OfTransform::read).collect::<Option<_>>()?,
            protect,
            leak_check,
        })
    }
}

impl<'a> OfTransform<'a> {
    fn read(text: &'a str) -> Option<OfTransform<'a>> {
        let (on_error, rest) = text.split_once(" memory ")?;
        let (memory, output) = rest.split_once(" output ")?;
        Some(OfTransform {
            on_error,
            memory,
            output,
        })
    }
}

/// In what `now` differs from what was planned, each as `on_error of transform 1 (mask): fail → quarantine`. The transforms are
/// compared where there are as many: where not, the chain is another one, which says more. `plugins` are those of now.
pub(super) fn differences(planned: &str, now: &str, plugins: &[&str]) -> Vec<String> {
    let (Some(was), Some(is)) = (Bounds::read(planned), Bounds::read(now)) else {
        return vec![format!("from {planned} to {now}")];
    };
    let mut changed = Vec::new();
    let mut compare = |what: String, was: &str, is: &str| {
        if was != is {
            changed.push(format!("{what}: {} → {}", or_none(was), or_none(is)));
        }
    };
    if was.transforms.len() == is.transforms.len() {
        for (at, (was, is)) in was.transforms.iter().zip(&is.transforms).enumerate() {
            let plugin = plugins.get(at).copied().unwrap_or("another plugin");
            let of = |what: &str| format!("{what} of transform {} ({plugin})", at + 1);
            compare(of("on_error"), was.on_error, is.on_error);
            compare(of("memory"), &size(was.memory), &size(is.memory));
            compare(of("output"), &size(was.output), &size(is.output));
        }
    }
    compare("protect".to_owned(), was.protect, is.protect);
    compare("leak_check".to_owned(), was.leak_check, is.leak_check);
    changed
}

fn or_none(text: &str) -> &str {
    match text {
        "" => "none",
        text => text,
    }
}

/// A number of bytes as the configuration would have it.
fn size(bytes: &str) -> String {
    match bytes.parse::<u64>() {
        Ok(number) if number.is_multiple_of(1 << 20) => format!("{}MiB", number >> 20),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAIL: &str = "fail memory 268435456 output 268435456";
    const QUARANTINE: &str = "quarantine memory 268435456 output 268435456";

    #[test]
    fn only_what_differs_is_told() {
        let was = format!("{FAIL}, {FAIL}; protect email, phone; leak_check full");
        let told = |is: &str| differences(&was, is, &["initials", "mask"]);
        assert_eq!(
            told(&format!("{QUARANTINE}, {FAIL}; protect email, phone; leak_check full")),
            ["on_error of transform 1 (initials): fail → quarantine"]
        );
        assert_eq!(
            told(&format!(
                "{FAIL}, fail memory 536870912 output 1000; protect email; leak_check sampled"
            )),
            [
                "memory of transform 2 (mask): 256MiB → 512MiB",
                "output of transform 2 (mask): 256MiB → 1000B",
                "protect: email, phone → email",
                "leak_check: full → sampled"
            ]
        );
        // One transform less: the chain says it.
        assert_eq!(
            told(&format!("{FAIL}; protect ; leak_check full")),
            ["protect: email, phone → none"]
        );
        assert!(told(&format!("{FAIL}; protect email, phone; leak_check full")).is_empty());
        assert_eq!(told("later"), [format!("from {was} to later")]);
    }

    #[test]
    fn what_is_pinned_can_be_read_whatever_columns_are_called() {
        let text = format!("{FAIL}; protect a; leak_check b, c; protect d; leak_check off");
        let read = Bounds::read(&text).unwrap();
        assert_eq!(
            (read.transforms.len(), read.protect, read.leak_check),
            (1, "a; leak_check b, c; protect d", "off")
        );
        let none = Bounds::read("; protect ; leak_check full").unwrap();
        assert_eq!((none.transforms.len(), none.protect), (0, ""));
    }
}
