//! P3, second half: customers from the source to committed Delta with the mask of the first half (two keyed hashes and a
//! date), against the same without. The variants take turns in one run, over the same backlog.

use anyhow::Result;
use serde_json::json;

use crate::customers;
use crate::measure::{Cost, Spread, measure, report};
use crate::project::{Variant, sluice};
use crate::say;
use crate::server::Server;

const VARIANTS: [Variant; 4] = [Variant::Unmasked, Variant::Masked, Variant::Tokens, Variant::Protected];

pub(crate) async fn run(rows: u64, rounds: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(dir.path())?;
    say(&format!("writing {rows} rows …"));
    let table = customers::table();
    server.fill(&table, rows).await?;
    let projects = tempfile::tempdir()?;
    let run = |variant| {
        let project = tempfile::tempdir_in(projects.path())?;
        measure(&mut sluice(project.path(), &server, &table, variant)?, rows)
    };
    // The first process that runs the mask compiles it, and those of the rounds find it compiled.
    run(Variant::Masked)?;
    let mut costs: [Vec<Cost>; 4] = Default::default();
    for round in 0..rounds {
        // Whoever comes first may find a cooler or a warmer machine, so the first of a round is another one each time.
        for turn in 0..VARIANTS.len() {
            let which = (turn + round as usize) % VARIANTS.len();
            costs[which].push(run(VARIANTS[which])?);
        }
        let told: Vec<String> = VARIANTS
            .iter()
            .zip(&costs)
            .filter_map(|(variant, costs)| Some((variant.name(), costs.last()?)))
            .map(|(name, cost)| format!("{name} {:.2} CPU s ({:.2} s wall)", cost.cpu, cost.wall))
            .collect();
        say(&format!("round {}: {}", round + 1, told.join(", ")));
    }
    let mut figures = serde_json::Map::new();
    let [unmasked, ..] = &costs;
    for (variant, costs) in VARIANTS.iter().zip(&costs) {
        let cpu = Spread::of(costs.iter().map(|cost| cost.cpu))?;
        let wall = Spread::of(costs.iter().map(|cost| cost.wall))?;
        // Throughput against that of the same round without the mask.
        let cpu_ratio = Spread::of(unmasked.iter().zip(costs).map(|(without, with)| without.cpu / with.cpu))?;
        let wall_ratio = Spread::of(
            unmasked
                .iter()
                .zip(costs)
                .map(|(without, with)| without.wall / with.wall),
        )?;
        say(&format!(
            "{}: {} CPU s, {} s wall; throughput against unmasked {} by CPU, {} by wall",
            variant.name(),
            cpu.text(2),
            wall.text(2),
            cpu_ratio.text(2),
            wall_ratio.text(2)
        ));
        figures.insert(
            variant.name().to_owned(),
            json!({
                "cpu_s": cpu.json(), "wall_s": wall.json(),
                "cpu_ratio": cpu_ratio.json(), "wall_ratio": wall_ratio.json(),
            }),
        );
    }
    report(
        "P3_ingestion",
        json!({ "rows": rows, "rounds": rounds, "variants": figures }),
    )
}
