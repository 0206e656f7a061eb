//! Where a table is.

use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

use super::LakeError;

/// The place of a table: a path, or a URL. Only local paths and `file://` URLs can be written by this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    url: Url,
    local: Option<PathBuf>,
}

impl Location {
    /// From the configuration's text: a path (relative ones count from the working directory) or a URL.
    pub fn parse(text: &str) -> Result<Location, LakeError> {
        let refuse = |location: String, reason: &str| LakeError::Location {
            location,
            reason: reason.to_owned(),
        };
        if text.trim().is_empty() {
            return Err(refuse("an empty text".into(), "give a path such as lake/orders"));
        }
        let path = if text.contains("://") {
            let url = Url::parse(text)
                .map_err(|_| refuse("the given text".into(), "it is not a URL: give a path or a file:// URL"))?;
            if url.scheme() != "file" {
                // Query and user info can hold credentials, so only what names the place is shown.
                let shown = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or(""), url.path());
                return Err(refuse(
                    shown,
                    "this build of sluice writes to local paths and file:// URLs only: mount the store or give a local path",
                ));
            }
            url.to_file_path()
                .map_err(|()| refuse(text.to_owned(), "its path is not absolute: write file:///absolute/path"))?
        } else {
            PathBuf::from(text)
        };
        let path = std::path::absolute(&path).map_err(|source| LakeError::io("resolve", &path, source))?;
        let url = Url::from_directory_path(&path)
            .map_err(|()| refuse(path.display().to_string(), "it cannot be written as a URL"))?;
        Ok(Location { url, local: Some(path) })
    }

    /// As a URL that ends with a slash.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The folder, when the place is a local one.
    pub fn local(&self) -> Option<&Path> {
        self.local.as_deref()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.local {
            Some(path) => write!(f, "{}", path.display()),
            None => write!(f, "{}", self.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_file_urls_are_one() {
        let a = Location::parse("/lake/a b").unwrap();
        let b = Location::parse("file:///lake/a%20b").unwrap();
        assert_eq!(a.local(), Some(Path::new("/lake/a b")));
        assert_eq!(a.local(), b.local());
        assert_eq!(a.to_string(), "/lake/a b");
    }

    #[test]
    fn another_scheme_is_refused_without_its_secrets() {
        let error = Location::parse("s3://key:secret@bucket/t?sig=secret")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("s3://bucket/t") && error.contains("local path"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
