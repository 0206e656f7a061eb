//! What a project may depend on: packages of a registry, by name and version. Everything else that the package managers take in a
//! dependency's place is refused: options, files, addresses, repositories.

/// Endings of files that pip would install instead of a package of that name.
const ARCHIVES: [&str; 11] = [
    ".whl",
    ".zip",
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tlz",
    ".tar.lzma",
];

/// Takes `name[extras] specifier`, such as `phonenumbers[lite]>=8,<10`. The error says what is wrong.
pub(crate) fn python_requirement(dependency: &str) -> Result<(), String> {
    if is_python_requirement(dependency) {
        return Ok(());
    }
    Err(format!(
        "the dependency `{dependency}` is none that sluice takes; write the name of a package, extras in brackets and \
         versions, such as `phonenumbers[lite]>=8,<10` (no options, markers, addresses, files or repositories)"
    ))
}

fn is_python_requirement(dependency: &str) -> bool {
    let (name, rest) = python_name(dependency);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || ARCHIVES.iter().any(|ending| lower.ends_with(ending)) {
        return false;
    }
    let rest = rest.trim_start_matches(' ');
    let rest = match rest.strip_prefix('[') {
        Some(extras) => {
            let Some((extras, rest)) = extras.split_once(']') else {
                return false;
            };
            let is_name = |extra: &str| !extra.is_empty() && python_name(extra) == (extra, "");
            if !extras.split(',').all(|extra| is_name(extra.trim_matches(' '))) {
                return false;
            }
            rest.trim_start_matches(' ')
        }
        None => rest,
    };
    rest.is_empty()
        || rest
            .split(',')
            .all(|version| is_python_version(version.trim_matches(' ')))
}

/// The name that a text begins with, which letters or digits begin and end, and the rest.
fn python_name(text: &str) -> (&str, &str) {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let length = text.bytes().position(|byte| !is_inner(byte)).unwrap_or(text.len());
    let name = &text[..length];
    let outer = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    if outer(name.bytes().next()) && outer(name.bytes().last()) {
        (name, &text[length..])
    } else {
        ("", text)
    }
}

/// `>=8`, `== 1.2.*`.
fn is_python_version(text: &str) -> bool {
    const OPERATORS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
    let Some(version) = OPERATORS.iter().find_map(|operator| text.strip_prefix(operator)) else {
        return false;
    };
    let version = version.trim_start_matches(' ');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".*+!-_".contains(&byte);
    version
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric())
        && version.bytes().all(fits)
}

/// Takes the name of a package and a range of its versions or a tag, such as `^4.1` or `latest`. The error says what is wrong.
pub(crate) fn npm_requirement(name: &str, version: &str) -> Result<(), String> {
    if !is_npm_name(name) {
        return Err(format!("the dependency `{name}` has no name of a package"));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b" .*^~<>=|+-_".contains(&byte);
    let lower = version.to_ascii_lowercase();
    let is_file = version.starts_with('.') || [".tgz", ".tar.gz", ".tar"].iter().any(|ending| lower.ends_with(ending));
    if version.bytes().all(fits) && !version.starts_with('-') && !is_file {
        return Ok(());
    }
    Err(format!(
        "the dependency `{name}` is `{version}`, and sluice takes packages of a registry alone; write versions, such as \
         `^4.1` (no git, file, link, address or other name)"
    ))
}

/// `ibantools`, `@me/ibans`.
fn is_npm_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        part.bytes().all(fits) && part.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
    };
    match name.strip_prefix('@').map(|scoped| scoped.split_once('/')) {
        Some(Some((scope, name))) => is_part(scope) && is_part(name),
        Some(None) => false,
        None => is_part(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_takes_names_extras_and_versions() {
        for dependency in [
            "phonenumbers",
            "phonenumbers>=8",
            "zope.interface == 5.*",
            "Some_Name-2[a, b-c] ~=1.2,!=1.3",
            "x[a]",
            "x===1.0+local.1",
            "x==1!2.0",
        ] {
            python_requirement(dependency).unwrap();
        }
        for dependency in [
            "",
            "-r requirements.txt",
            "--index-url=http://example.com",
            "-e.",
            ".",
            "./x",
            "../x",
            "/tmp/x",
            "x/y",
            "x\\y",
            "x @ https://example.com/x.whl",
            "x@file:///tmp/x",
            "git+https://example.com/x",
            "https://example.com/x.whl",
            "x.whl",
            "x.tar.gz",
            "x.ZIP",
            "x; python_version < '4'",
            "x>=1 --pre",
            "x>=",
            "x>=1,",
            "x>=../y",
            "x[",
            "x[]",
            "x[a/b]",
            "x-",
            "x y",
            "x\n-e .",
            "\u{e4}",
        ] {
            let error = python_requirement(dependency).unwrap_err();
            assert!(error.contains("is none that sluice takes"), "{error}");
        }
    }

    #[test]
    fn npm_takes_versions_and_tags() {
        for (name, version) in [
            ("ibantools", "4"),
            ("@me/ibans", "^4.1.0"),
            ("x", ""),
            ("x", "*"),
            ("x", "~1.2 || >=2.0.0-rc.1 <3"),
            ("x", "1.0.0 - 2.9999.9999"),
            ("x", "latest"),
        ] {
            npm_requirement(name, version).unwrap();
        }
        for version in [
            "git+ssh://git@example.com/x.git",
            "git://example.com/x",
            "github:me/x",
            "me/x",
            "me/x#main",
            "http://example.com/x.tgz",
            "https://example.com/x.tgz",
            "file:../x",
            "link:../x",
            "workspace:*",
            "npm:y@1",
            "../x",
            "./x",
            "~/x",
            "/x",
            "..",
            "C:\\x",
            "x.tgz",
            "x.TAR.GZ",
            "--git=sh",
            "1\n2",
        ] {
            let error = npm_requirement("x", version).unwrap_err();
            assert!(error.starts_with("the dependency `x` is `"), "{error}");
        }
        for name in ["", "../x", ".x", "@me", "@me/../x", "a/b", "-x", "a b"] {
            assert!(npm_requirement(name, "1").is_err(), "{name}");
        }
    }
}
