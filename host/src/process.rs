//! What the system says of this process. `None` where it says nothing.

/// Bytes of memory that are resident now.
pub fn resident_bytes() -> Option<u64> {
    status_kib("VmRSS:").map(|kib| kib * 1024)
}

/// The most bytes of memory that were resident at once.
pub fn peak_resident_bytes() -> Option<u64> {
    status_kib("VmHWM:").map(|kib| kib * 1024)
}

/// Seconds that its threads computed.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before it may hold blanks, and ends with the last parenthesis.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11);
    let (user, system): (f64, f64) = (ticks.next()?.parse().ok()?, ticks.next()?.parse().ok()?);
    Some((user + system) / rustix::param::clock_ticks_per_second() as f64)
}

/// Files that are open.
pub fn open_files() -> Option<u64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    u64::try_from(files.count()).ok()
}

/// Files that may be open.
pub fn open_files_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

fn status_kib(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_says_something_of_a_process() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(peak_resident_bytes() >= resident_bytes());
        assert!(cpu_seconds().unwrap() < 3600.0);
        assert!(open_files().unwrap() >= 3);
    }
}
