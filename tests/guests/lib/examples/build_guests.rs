//! Builds the test guests (all, or those named) and says how large they are and how long it took.

fn main() {
    let named: Vec<String> = std::env::args().skip(1).collect();
    for (name, _) in sluice_test_guests::GUESTS {
        if !named.is_empty() && !named.iter().any(|wanted| wanted == name) {
            continue;
        }
        let built = sluice_test_guests::built(name);
        println!(
            "{name}: {} bytes, {:.1} s, sha256 {}, {} {}, by {}",
            built.bytes,
            built.elapsed.as_secs_f64(),
            built.sha256,
            built.info.name,
            built.info.version,
            built.toolchain
        );
    }
}
