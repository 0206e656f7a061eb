//! Names of places.

use std::collections::HashMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deltalake::logstore::object_store::path::Path as ObjectPath;
use url::Url;

use super::bucket::{Bucket, QUICK_REQUEST, REQUEST};
use super::options::{Scheme, StorageOptions};

/// A folder or a file of this machine, or a prefix or an object in a bucket. Two are equal when their names are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Kind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Local(PathBuf),
    Object(ObjectPlace),
}

/// A prefix or an object in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPlace {
    pub(super) bucket: Arc<Bucket>,
    pub(super) path: ObjectPath,
}

/// By name, and by how long one request may take.
type Buckets = HashMap<(String, Duration), Arc<Bucket>>;

/// The buckets of a process, each with one client.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    options: Arc<StorageOptions>,
    buckets: Arc<Mutex<Buckets>>,
}

impl Stores {
    /// With what the configuration says of the stores.
    pub fn new(options: StorageOptions) -> Stores {
        Stores {
            options: Arc::new(options),
            buckets: Arc::default(),
        }
    }

    fn bucket(&self, scheme: Scheme, name: &str, patience: Duration) -> Arc<Bucket> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets
            .entry((name.to_owned(), patience))
            .or_insert_with(|| Arc::new(Bucket::new(scheme, name.to_owned(), self.clone(), patience)));
        Arc::clone(bucket)
    }

    pub(super) fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// The place that a text means: a path, which counts from `base`, or a URL of one of [`Scheme::ALL`] or of `file`. An error is
    /// what is wrong with it, as the end of a sentence that names it.
    pub fn place(&self, base: &Path, text: &str) -> Result<Place, String> {
        let one_slash = text
            .split_once(":/")
            .filter(|(scheme, rest)| !rest.starts_with('/') && Scheme::of(&scheme.to_ascii_lowercase()).is_some());
        if let Some((scheme, _)) = one_slash {
            return Err(format!(
                "begins with {scheme}:/; a URL has two slashes there: {scheme}://"
            ));
        }
        let place = match text.split_once("://") {
            Some(("file", rest)) => Place::local(PathBuf::from(rest)),
            Some((scheme, rest)) => {
                let Some(scheme) = Scheme::of(scheme) else {
                    let lower = scheme.to_ascii_lowercase();
                    let hint = match Scheme::of(&lower) {
                        Some(_) => format!("write it in small letters: {lower}://"),
                        None => format!("use a local path, or {}", Scheme::known()),
                    };
                    return Err(format!("has {scheme}://, which sluice does not know; {hint}"));
                };
                self.object(scheme, text, rest)?
            }
            None => Place::local(base.join(text)),
        };
        let shown = place.to_string();
        if shown.contains(char::is_control) {
            return Err("has a control character, such as a line break".to_owned());
        }
        // A store would read it as another character.
        let encoded = |at: usize| {
            shown
                .get(at + 1..at + 3)
                .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        if shown.match_indices('%').any(|(at, _)| encoded(at)) {
            return Err(format!(
                "is {shown}, with a percent sign before two hex digits; use another folder name"
            ));
        }
        Ok(place)
    }

    fn object(&self, scheme: Scheme, text: &str, rest: &str) -> Result<Place, String> {
        if rest.contains(['?', '#']) {
            return Err(
                "has a query or a fragment; what a store needs besides its name is set in [storage]".to_owned(),
            );
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let named = match scheme {
            // abfss://container@account.dfs.core.windows.net/…
            Scheme::Azure if text.starts_with("abfs") => authority
                .split_once('@')
                .is_some_and(|(container, account)| !container.is_empty() && !account.contains([':', '@'])),
            _ => !authority.is_empty() && !authority.contains(['@', ':']),
        };
        if !named {
            return Err(format!("is no {} URL: write {}", scheme.name(), scheme.shape()));
        }
        let path = path.trim_end_matches('/');
        let path = ObjectPath::parse(path)
            .ok()
            .filter(|_| !path.starts_with('/'))
            .ok_or_else(|| "has an empty folder name, or `.` or `..`, in it; write the folders out".to_owned())?;
        if path.as_ref().is_empty() {
            return Err(format!(
                "is a whole bucket; name a folder in it, as in {}",
                scheme.shape()
            ));
        }
        // One bucket has one name, however it is spelt.
        let scheme_text = match text.split_once("://") {
            Some(("s3a", _)) => "s3",
            Some(("abfs", _)) => "abfss",
            Some((scheme, _)) => scheme,
            None => "",
        };
        let authority = match scheme {
            Scheme::Azure => authority.to_ascii_lowercase(),
            Scheme::S3 | Scheme::Gcs => authority.to_owned(),
        };
        Ok(Place(Kind::Object(ObjectPlace {
            bucket: self.bucket(scheme, &format!("{scheme_text}://{authority}"), REQUEST),
            path,
        })))
    }
}

impl Place {
    /// A path of this machine, without `.` and `..`, by its text alone: it need not exist.
    pub fn local(path: impl Into<PathBuf>) -> Place {
        let mut out = PathBuf::new();
        for component in path.into().components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    out.pop();
                }
                other => out.push(other),
            }
        }
        Place(Kind::Local(out))
    }

    /// The same place, for what has to be answered in time: requests that hang are given up sooner. It is meant for a few bytes.
    #[must_use]
    pub fn in_time(&self) -> Place {
        match &self.0 {
            Kind::Local(_) => self.clone(),
            Kind::Object(ObjectPlace { bucket, path }) => Place(Kind::Object(ObjectPlace {
                bucket: bucket.stores().bucket(bucket.scheme(), bucket.name(), QUICK_REQUEST),
                path: path.clone(),
            })),
        }
    }

    /// The path, when it is one of this machine.
    pub fn as_local(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Local(path) => Some(path),
            Kind::Object(_) => None,
        }
    }

    /// The place in a bucket, when it is in one.
    pub fn as_object(&self) -> Option<&ObjectPlace> {
        match &self.0 {
            Kind::Local(_) => None,
            Kind::Object(object) => Some(object),
        }
    }

    /// Either of the two.
    pub(crate) fn split(&self) -> Result<&Path, &ObjectPlace> {
        match &self.0 {
            Kind::Local(path) => Ok(path),
            Kind::Object(object) => Err(object),
        }
    }

    /// What is below it. `name` is a name, or names with a slash between them.
    #[must_use]
    pub fn join(&self, name: &str) -> Place {
        match &self.0 {
            Kind::Local(path) => Place(Kind::Local(match name.is_empty() {
                true => path.clone(),
                false => path.join(name),
            })),
            Kind::Object(object) => {
                let parts = object.path.as_ref().split('/').chain(name.split('/'));
                let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
                Place(Kind::Object(object.at(&parts.join("/"))))
            }
        }
    }

    /// The last part of its name.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Local(path) => path.file_name()?.to_str(),
            Kind::Object(object) => object.path.filename(),
        }
    }

    /// What it is in.
    pub fn parent(&self) -> Option<Place> {
        match &self.0 {
            Kind::Local(path) => Some(Place(Kind::Local(path.parent()?.to_path_buf()))),
            Kind::Object(object) => {
                // What is in no folder of a bucket is in the bucket.
                let path = Some(object.path.as_ref()).filter(|path| !path.is_empty())?;
                let (parent, _) = path.rsplit_once('/').unwrap_or(("", path));
                Some(Place(Kind::Object(object.at(parent))))
            }
        }
    }

    /// What it is in, and what that is in, from the inside to the outside, without itself.
    pub fn ancestors(&self) -> impl Iterator<Item = Place> + use<> {
        std::iter::successors(self.parent(), Place::parent)
    }

    /// Beside it, under another name.
    #[must_use]
    pub fn beside(&self, name: &str) -> Place {
        self.parent()
            .map_or_else(|| Place::local(name), |parent| parent.join(name))
    }

    /// The scheme of its URL, when it is in a bucket.
    pub fn url_scheme(&self) -> Option<&str> {
        let object = self.as_object()?;
        object.bucket.name().split_once("://").map(|(scheme, _)| scheme)
    }

    /// Whether it is that place, or below it.
    pub fn is_within(&self, outer: &Place) -> bool {
        match (&self.0, &outer.0) {
            (Kind::Local(path), Kind::Local(outer)) => path.starts_with(outer),
            (Kind::Object(a), Kind::Object(outer)) => a.bucket == outer.bucket && a.path.prefix_matches(&outer.path),
            _ => false,
        }
    }

    /// A place by the text that [`Place`] shows, which somebody wrote down: in the same store as this one, or on this machine.
    /// `None` when nothing here knows that store.
    pub fn named_beside(&self, text: &str) -> Option<Place> {
        match (&self.0, text.contains("://")) {
            (Kind::Object(object), true) => object.bucket.stores().place(Path::new("/"), text).ok(),
            (_, true) => None,
            (_, false) => Some(Place::local(text)),
        }
    }

    /// As the URL of a folder, which ends with a slash. A relative path counts from the folder that the process is in. `None` when
    /// the path has no such form.
    pub fn folder_url(&self) -> Option<Url> {
        match &self.0 {
            Kind::Local(path) => Url::from_directory_path(std::path::absolute(path).ok()?).ok(),
            Kind::Object(object) => {
                let mut url = Url::parse(object.bucket.name()).ok()?;
                let mut segments = url.path_segments_mut().ok()?;
                segments
                    .clear()
                    .extend(object.path.parts().map(|part| part.as_ref().to_owned()))
                    .push("");
                drop(segments);
                Some(url)
            }
        }
    }

    /// As [`Path::display`].
    pub fn display(&self) -> &Place {
        self
    }
}

impl ObjectPlace {
    /// Another path of the same bucket. Names stay as they are written: nothing in them is encoded.
    fn at(&self, path: &str) -> ObjectPlace {
        ObjectPlace {
            bucket: Arc::clone(&self.bucket),
            // What cannot be parsed has an empty part, or dots alone; no name that sluice makes has.
            path: ObjectPath::parse(path).unwrap_or_else(|_| ObjectPath::from(path)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Local(path) => write!(f, "{}", path.display()),
            Kind::Object(object) => write!(f, "{object}"),
        }
    }
}

impl fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket.name(), self.path)
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::local("")
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Place {
        Place::local(path)
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Place {
        Place::local(path)
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Place {
        Place::local(path)
    }
}

impl serde::Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<Place, String> {
        Stores::default().place(Path::new("/base"), text)
    }

    #[test]
    fn paths_and_urls_of_files_are_one() {
        assert_eq!(place("lake/a").unwrap(), Place::local("/base/lake/a"));
        assert_eq!(place("../x/./y").unwrap(), Place::local("/x/y"));
        assert_eq!(
            place("file:///lake/a b").unwrap().as_local(),
            Some(Path::new("/lake/a b"))
        );
        let url = place("/lake/a b").unwrap().folder_url().unwrap();
        assert_eq!(url.as_str(), "file:///lake/a%20b/");
    }

    #[test]
    fn objects_have_names_like_files() {
        let stores = Stores::default();
        let at = |text: &str| stores.place(Path::new("/base"), text).unwrap();
        let table = at("s3://lake/bronze/a b/");
        assert_eq!(table.to_string(), "s3://lake/bronze/a b");
        assert_eq!(table.folder_url().unwrap().as_str(), "s3://lake/bronze/a%20b/");
        assert_eq!(
            table.join("offsets/0.a0.json").to_string(),
            "s3://lake/bronze/a b/offsets/0.a0.json"
        );
        assert_eq!(table.name(), Some("a b"));
        assert_eq!(table.beside("c"), at("s3://lake/bronze/c"));
        let ancestors: Vec<String> = table.ancestors().map(|place| place.to_string()).collect();
        assert_eq!(ancestors, ["s3://lake/bronze", "s3://lake/"]);
        // At the top of a bucket, and with names that some encode.
        assert_eq!(at("s3://lake/t").beside("t__quarantine"), at("s3://lake/t__quarantine"));
        assert_eq!(
            at("s3://lake/t").parent().unwrap().join("größe~[1]").to_string(),
            "s3://lake/größe~[1]"
        );
        let named = at("s3://lake/größe/dbo_Größe");
        assert_eq!(named.parent().unwrap(), at("s3://lake/größe"));
        assert_eq!(named.beside("dbo_Maß").to_string(), "s3://lake/größe/dbo_Maß");
        assert!(table.join("x").is_within(&table) && !table.is_within(&at("s3://lake/bronze/a")));
        assert!(!table.is_within(&at("gs://lake/bronze")));
        assert_eq!(table.named_beside("s3://lake/hosts"), Some(at("s3://lake/hosts")));
        assert_eq!(Place::local("/x").named_beside("s3://lake/hosts"), None);
        assert_eq!(at("s3a://lake/x"), at("s3://lake/x"));
        assert_eq!(table.in_time(), table);
        assert_eq!(table.in_time().join("x").beside("y"), table.join("y"));
        let azure = at("abfss://box@account.dfs.core.windows.net/t");
        assert_eq!(
            azure.folder_url().unwrap().as_str(),
            "abfss://box@account.dfs.core.windows.net/t/"
        );
    }

    #[test]
    fn what_is_no_place_is_refused_and_shows_no_secret() {
        for (text, words) in [
            ("s3://key:secret@bucket/t", "write s3://bucket/folder"),
            ("s3://bucket/t?sig=secret", "[storage]"),
            ("s3://bucket", "name a folder in it"),
            ("s3://bucket/a//b", "write the folders out"),
            ("s3://bucket//a", "write the folders out"),
            ("s3:/bucket/a", "two slashes there: s3://"),
            ("S3://bucket/a", "small letters: s3://"),
            ("s3://bucket/a/../b", "write the folders out"),
            ("az:///t", "write az://container/folder"),
            ("abfss://account/t", "write az://container/folder"),
            ("https://secret@x/t", "has https://"),
            ("s3://bucket/a%20b", "percent sign"),
            ("s3://bucket/a\nb", "folders out"),
        ] {
            let error = place(text).unwrap_err();
            assert!(error.contains(words) && !error.contains("secret"), "{text:?}: {error}");
        }
    }
}
