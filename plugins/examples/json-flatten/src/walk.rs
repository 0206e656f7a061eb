//! All paths at once through a JSON text.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::path::Step;

/// A place in a JSON text to which paths lead, or through which they go on.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The fields whose path ends here.
    fields: Vec<usize>,
    names: Vec<(String, Node)>,
    items: Vec<(usize, Node)>,
}

/// For each field the text of its value, where there is one.
type Found<'t> = Vec<Option<&'t RawValue>>;

impl Node {
    /// Adds the path of a field.
    pub(crate) fn add(&mut self, path: &[Step], field: usize) {
        let Some((step, rest)) = path.split_first() else {
            return self.fields.push(field);
        };
        match step {
            Step::Name(name) => child(&mut self.names, name).add(rest, field),
            Step::Item(item) => child(&mut self.items, item).add(rest, field),
        }
    }

    /// The values of so many fields in a text.
    ///
    /// # Errors
    /// The text is not JSON, wherever in it the mistake is.
    pub(crate) fn find<'t>(&self, text: &'t str, fields: usize) -> Result<Found<'t>, serde_json::Error> {
        let mut found = vec![None; fields];
        // The whole is checked here; what follows goes through parts of it again.
        self.enter(serde_json::from_str(text)?, &mut found)?;
        Ok(found)
    }

    fn enter<'t>(&self, value: &'t RawValue, found: &mut Found<'t>) -> Result<(), serde_json::Error> {
        for field in &self.fields {
            found[*field] = Some(value);
        }
        let inside = Inside { node: self, found };
        match value.get().as_bytes().first() {
            Some(b'{') if !self.names.is_empty() => {
                inside.deserialize(&mut serde_json::Deserializer::from_str(value.get()))
            }
            Some(b'[') if !self.items.is_empty() => {
                inside.deserialize(&mut serde_json::Deserializer::from_str(value.get()))
            }
            _ => Ok(()),
        }
    }
}

fn child<'n, K: PartialEq + Clone>(children: &'n mut Vec<(K, Node)>, key: &K) -> &'n mut Node {
    let at = children.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
        children.push((key.clone(), Node::default()));
        children.len() - 1
    });
    &mut children[at].1
}

/// The members or items of one value.
struct Inside<'n, 'f, 't> {
    node: &'n Node,
    found: &'f mut Found<'t>,
}

impl<'t> DeserializeSeed<'t> for Inside<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Inside<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = vec![false; self.node.names.len()];
        while let Some(name) = members.next_key::<String>()? {
            // Of two equal names the first counts.
            let at = self.node.names.iter().position(|(wanted, _)| *wanted == name);
            match at.filter(|at| !std::mem::replace(&mut seen[*at], true)) {
                Some(at) => {
                    let value: &'t RawValue = members.next_value()?;
                    self.node.names[at]
                        .1
                        .enter(value, self.found)
                        .map_err(A::Error::custom)?;
                }
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<(), A::Error> {
        for at in 0_usize.. {
            match self.node.items.iter().find(|(wanted, _)| *wanted == at) {
                Some((_, node)) => {
                    let Some(value) = items.next_element::<&'t RawValue>()? else {
                        break;
                    };
                    node.enter(value, self.found).map_err(A::Error::custom)?;
                }
                None => {
                    if items.next_element::<IgnoredAny>()?.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::parse;

    fn found(text: &str, paths: &[&str]) -> Option<Vec<Option<String>>> {
        let mut node = Node::default();
        for (field, path) in paths.iter().enumerate() {
            node.add(&parse(path).unwrap(), field);
        }
        let found = node.find(text, paths.len()).ok()?;
        Some(
            found
                .iter()
                .map(|value| value.map(|value| value.get().to_owned()))
                .collect(),
        )
    }

    fn some(texts: &[&str]) -> Option<Vec<Option<String>>> {
        let none = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        Some(texts.iter().map(none).collect())
    }

    #[test]
    fn many_paths_are_found_in_one_text() {
        let text = r#" { "a" : { "b": 1.50, "c": [ "x", {"d": null} ] }, "e": true, "\u0066": -0 } "#;
        assert_eq!(
            found(
                text,
                &["$.a.b", "$.a.c[1].d", "$.a.c[0]", "$.e", "$.f", "$.a.b", "$.a.c"]
            ),
            some(&[
                "1.50",
                "null",
                "\"x\"",
                "true",
                "-0",
                "1.50",
                "[ \"x\", {\"d\": null} ]"
            ])
        );
        assert_eq!(
            found("[[7]]", &["$[0][0]", "$", "$[1]", "$[0].a"]),
            some(&["7", "[[7]]", "", ""])
        );
        assert_eq!(found("3", &["$", "$.a", "$[0]"]), some(&["3", "", ""]));
    }

    #[test]
    fn of_two_equal_names_the_first_counts() {
        assert_eq!(
            found(r#"{"a":{"b":1},"a":{"b":2,"c":3}}"#, &["$.a.b", "$.a.c"]),
            some(&["1", ""])
        );
    }

    #[test]
    fn a_mistake_anywhere_makes_the_text_invalid() {
        for text in [
            "",
            " ",
            "{",
            "{\"a\":1}}",
            "{\"a\":1,}",
            "{'a':1}",
            "nul",
            "01",
            "{\"a\":\"\n\"}",
            "{\"z\":[1,]}",
            "\u{feff}{}",
        ] {
            assert_eq!(found(text, &["$.a"]), None, "{text}");
        }
    }

    #[test]
    fn depth_ends_no_call() {
        let deep = format!("{{\"a\":1,\"b\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(found(&deep, &["$.a"]), some(&["1"]));
    }
}
