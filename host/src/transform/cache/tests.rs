use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::sha256;

/// A component without anything in it.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

fn engine(nan_canonicalization: bool) -> wasmtime::Engine {
    let mut config = wasmtime::Config::new();
    config
        .wasm_component_model(true)
        .cranelift_nan_canonicalization(nan_canonicalization);
    wasmtime::Engine::new(&config).unwrap()
}

/// A cache in a directory of its own that was not there.
fn fresh() -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir.path().join("components")).unwrap();
    (dir, cache)
}

fn open(path: &Path) -> Option<Cache> {
    Cache::open(&CacheSettings::At(path.to_owned()))
}

/// Compiles the empty component into the cache, and gives the name and the path of the entry.
fn kept(cache: &Cache, engine: &wasmtime::Engine) -> (String, PathBuf) {
    let digest = sha256::hex(EMPTY);
    cache.component(engine, &digest, EMPTY).unwrap();
    let name = entry_name(engine, &digest);
    let path = cache.path(&name);
    assert!(cache.load(engine, &name).is_some());
    (name, path)
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_one_process_compiled_another_one_loads() {
    let (dir, cache) = fresh();
    let engine = engine(true);
    assert!(cache.load(&engine, &entry_name(&engine, &sha256::hex(EMPTY))).is_none());
    let (name, path) = kept(&cache, &engine);
    let again = open(&dir.path().join("components")).unwrap();
    assert!(again.load(&self::engine(true), &name).is_some());
    // It is the entry that answers and not the compiler: these bytes are no component.
    assert!(again.component(&engine, &sha256::hex(EMPTY), b"nothing").is_ok());
    assert!(again.component(&engine, &sha256::hex(b"nothing"), b"nothing").is_err());
    assert_eq!(mode(cache.folder.path()), 0o700);
    assert_eq!(mode(&cache.folder.path().join("key")), 0o600);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(std::fs::read_dir(cache.folder.path()).unwrap().count(), 2);
}

#[test]
fn another_component_and_other_settings_are_misses() {
    let (_dir, cache) = fresh();
    let (strict, loose) = (engine(true), engine(false));
    let (name, path) = kept(&cache, &strict);
    let other = entry_name(&loose, &sha256::hex(EMPTY));
    assert_ne!(name, other);
    assert_ne!(name, entry_name(&strict, &sha256::hex(b"another")));
    assert!(cache.load(&loose, &other).is_none());
    // An entry under another one's name is not taken for it.
    std::fs::copy(&path, cache.path(&other)).unwrap();
    assert!(cache.load(&loose, &other).is_none());
    assert!(cache.load(&strict, &other).is_none());
    kept(&cache, &loose);
}

#[test]
fn a_cut_or_changed_entry_is_a_miss_and_is_written_again() {
    let (_dir, cache) = fresh();
    let engine = engine(true);
    let (name, path) = kept(&cache, &engine);
    let whole = std::fs::read(&path).unwrap();
    for len in [
        0,
        1,
        TAG_BYTES - 1,
        TAG_BYTES,
        TAG_BYTES + 1,
        whole.len() / 2,
        whole.len() - 1,
    ] {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert!(cache.load(&engine, &name).is_none(), "{len}");
    }
    for at in (0..whole.len()).step_by(whole.len() / 50) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        assert!(cache.load(&engine, &name).is_none(), "{at}");
    }
    std::fs::write(&path, [whole.as_slice(), b"x"].concat()).unwrap();
    assert!(cache.load(&engine, &name).is_none());
    kept(&cache, &engine);
    assert_eq!(std::fs::read(&path).unwrap().len(), whole.len());
}

#[test]
fn an_entry_of_another_key_is_a_miss() {
    let engine = engine(true);
    let ((_here, cache), (_there, foreign)) = (fresh(), fresh());
    let (name, path) = kept(&foreign, &engine);
    std::fs::copy(path, cache.path(&name)).unwrap();
    assert!(cache.load(&engine, &name).is_none());
    // Nor does an entry count that has a tag under no key at all.
    let code = std::fs::read(foreign.path(&name)).unwrap()[TAG_BYTES..].to_vec();
    std::fs::write(cache.path(&name), [Sha256::digest(&code).as_slice(), &code].concat()).unwrap();
    assert!(cache.load(&engine, &name).is_none());
}

#[test]
fn a_directory_that_is_not_private_is_not_used() {
    let (_dir, cache) = fresh();
    let path = cache.folder.path();
    for open_to_others in [0o777, 0o1777, 0o755, 0o750, 0o701] {
        set_mode(path, open_to_others);
        assert!(open(path).is_none(), "{open_to_others:o}");
    }
    set_mode(path, 0o700);
    let key = path.join("key");
    set_mode(&key, 0o644);
    assert!(open(path).is_none());
    set_mode(&key, 0o600);
    assert!(open(path).is_some());
    std::fs::write(&key, [1; KEY_LENGTH - 1]).unwrap();
    assert!(open(path).is_none());
    std::fs::write(&key, [1; KEY_LENGTH + 1]).unwrap();
    assert!(open(path).is_none());
}

const KEY_LENGTH: usize = 32;

#[test]
fn what_cannot_be_read_or_written_costs_the_cache_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(open(&file).is_none());
    assert!(open(&file.join("below")).is_none());
    assert!(Cache::open(&CacheSettings::Off).is_none());

    let engine = engine(true);
    let cache = open(&dir.path().join("components")).unwrap();
    let (name, path) = kept(&cache, &engine);
    // A directory in the entry's place can be neither read nor replaced.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(path.join("full")).unwrap();
    assert!(cache.load(&engine, &name).is_none());
    assert!(cache.component(&engine, &sha256::hex(EMPTY), EMPTY).is_ok());
    // The whole directory may go away while it is used.
    std::fs::remove_dir_all(cache.folder.path()).unwrap();
    assert!(cache.component(&engine, &sha256::hex(EMPTY), EMPTY).is_ok());
}

#[test]
fn the_entries_that_were_not_used_for_longest_make_room() {
    let (_dir, mut cache) = fresh();
    let names: Vec<String> = (0..4_u8).map(|n| sha256::hex(&[n])).collect();
    let age = |name: &str, seconds| {
        let file = File::options().append(true).open(cache.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .unwrap();
    };
    for name in &names[..3] {
        cache.store(name, &[0; 68]).unwrap();
    }
    age(&names[0], 10);
    age(&names[1], 30);
    age(&names[2], 20);
    let left_behind = cache.folder.path().join("partial-dead");
    let at_work = cache.folder.path().join("partial-alive");
    std::fs::write(&left_behind, b"x").unwrap();
    std::fs::write(&at_work, b"x").unwrap();
    let file = File::options().append(true).open(&left_behind).unwrap();
    file.set_modified(SystemTime::now() - 2 * LEFT_BEHIND).unwrap();

    // Each entry has 100 bytes: three fit.
    cache.max_bytes = 300;
    cache.store(&names[3], &[0; 68]).unwrap();
    let left: Vec<bool> = names.iter().map(|name| cache.path(name).exists()).collect();
    assert_eq!(left, [true, false, true, true]);
    assert!(!left_behind.exists());
    assert!(at_work.exists());
    assert!(cache.folder.path().join("key").exists());
    assert!(cache.store(&names[1], &[0; 269]).is_err());
}

#[test]
fn a_hit_makes_an_entry_young_again() {
    let (_dir, cache) = fresh();
    let engine = engine(true);
    let (name, path) = kept(&cache, &engine);
    let old = SystemTime::now() - Duration::from_secs(3600);
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert!(cache.load(&engine, &name).is_some());
    let used = path.metadata().unwrap().modified().unwrap();
    assert!(SystemTime::now().duration_since(used).unwrap() < Duration::from_secs(60));
}

#[test]
fn many_at_once_make_one_key_and_whole_entries() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("components");
    let engine = engine(true);
    let start = std::sync::Barrier::new(8);
    let keys: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let cache = open(&path).unwrap();
                    for _ in 0..5 {
                        kept(&cache, &engine);
                    }
                    cache.folder.key().to_vec()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2);
}
