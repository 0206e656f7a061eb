//! Which classes a module in Python has, as far as its text says: a manifest that names another is told of it before tools
//! are fetched.

use std::path::{Path, PathBuf};

use crate::error::BuildError;

/// Why the class of a manifest cannot be had; `None` where it is there, or where the text does not tell.
pub(crate) fn missing(dir: &Path, module: &str, class: &str) -> Option<String> {
    let (file, text) = module_of(dir, module)?;
    // Names may also come by an import, or be made when the module is loaded.
    let may_be_there = words(&text).any(|word| word == class) || text.contains("import *");
    (!may_be_there).then(|| reason(&file, &text, class))
}

/// The same once Python has said that the module does not have the class. `None` of any other error.
pub(crate) fn not_imported(error: &BuildError, dir: &Path, module: &str, class: &str) -> Option<String> {
    let words = format!("cannot import name '{class}' from '{module}'");
    if !matches!(error, BuildError::Failed { output, .. } if output.contains(&words)) {
        return None;
    }
    let (file, text) = module_of(dir, module)?;
    Some(reason(&file, &text, class))
}

fn reason(file: &Path, text: &str, class: &str) -> String {
    let has = classes(text);
    let has = match has.as_slice() {
        [] => "no class".to_owned(),
        has => format!("`{}`", has.join("`, `")),
    };
    format!(
        "`[tool.sluice] transform` names `{class}`, which {} does not have; it has {has}",
        file.display()
    )
}

/// The module's file, from the project's folder on, and its text.
fn module_of(dir: &Path, module: &str) -> Option<(PathBuf, String)> {
    let path = PathBuf::from(module.replace('.', "/"));
    [path.with_extension("py"), path.join("__init__.py")]
        .into_iter()
        .find_map(|file| Some((file.clone(), std::fs::read_to_string(dir.join(&file)).ok()?)))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !(char.is_alphanumeric() || char == '_'))
}

/// The classes of a module; where some derive from `Transform`, these alone.
fn classes(text: &str) -> Vec<&str> {
    let all: Vec<(&str, bool)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("class "))
        .filter_map(|rest| {
            let name = words(rest.trim_start()).next().filter(|name| !name.is_empty())?;
            Some((name, words(rest).skip(1).any(|word| word == "Transform")))
        })
        .collect();
    let some = all.iter().any(|(_, is_transform)| *is_transform);
    all.into_iter()
        .filter(|(_, is_transform)| *is_transform || !some)
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "from sluice_plugin import Transform\n\n\nclass Helper:\n    class Inner(Transform):\n        pass\n\n\n\
                        class MaskEmails(Transform):\n    pass\n";

    struct Project(PathBuf);

    impl Project {
        fn new(name: &str, file: &str, text: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("sluice-classes-{name}-{}", std::process::id()));
            let file = dir.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
            Self(dir)
        }
    }

    impl Drop for Project {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_class_that_the_module_does_not_have_is_told_with_those_that_it_has() {
        let project = Project::new("one", "transform.py", TEXT);
        assert_eq!(
            missing(&project.0, "transform", "MaskPhones").unwrap(),
            "`[tool.sluice] transform` names `MaskPhones`, which transform.py does not have; it has `MaskEmails`"
        );
        assert_eq!(missing(&project.0, "transform", "MaskEmails"), None);
        // A module of a package that is yet to be fetched.
        assert_eq!(missing(&project.0, "masks.phones", "MaskPhones"), None);

        let said = BuildError::Failed {
            program: "componentize-py".to_owned(),
            output: "ImportError: cannot import name 'Helpers' from 'transform' (/0/transform.py)".to_owned(),
        };
        assert!(not_imported(&said, &project.0, "transform", "Helpers").is_some());
        assert_eq!(not_imported(&said, &project.0, "transform", "MaskEmails"), None);
    }

    #[test]
    fn what_a_text_does_not_tell_is_left_to_python() {
        let project = Project::new("two", "masks/__init__.py", "from .phones import *\n");
        assert_eq!(missing(&project.0, "masks", "MaskPhones"), None);
        let imported = Project::new("three", "transform.py", "from masks import MaskPhones\n");
        assert_eq!(missing(&imported.0, "transform", "MaskPhones"), None);
    }

    #[test]
    fn without_a_transform_all_classes_are_told() {
        assert_eq!(classes(TEXT), ["MaskEmails"]);
        assert_eq!(classes("class A:\n    pass\nclass B(A):\n    pass\n"), ["A", "B"]);
        assert!(classes("x = 1\n").is_empty());
        let project = Project::new("four", "transform.py", "x = 1\n");
        assert!(
            missing(&project.0, "transform", "A")
                .unwrap()
                .ends_with("it has no class")
        );
    }
}
